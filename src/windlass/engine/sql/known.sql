-- What a job of definition $1 in tenant $2 becomes if it says nothing itself; no row when either is unknown or inactive.
select d.id, d.xmin as version, t.id as tenant_id, q.id as queue_id, e.priority, e.max_attempts
from windlass.effective_definitions e
join windlass.definitions d on d.id = e.id
join windlass.queues q on q.name = e.queue
join windlass.tenants t on t.slug = $2
where e.key = $1 and e.is_active and not e.deleted_from_code
