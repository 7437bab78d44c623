-- One job, wherever it is now. $1 tenant (null: any), $2 job
select j.id, j.tenant_id, t.slug as tenant, d.key as definition_key,
       case when l.job_id is not null then 'running'
            when p.job_id is not null then p.why
            when q.job_id is not null then 'queued'
            else f.state end as status,
       n.name as queue, j.priority, j.source, j.source_ref, j.dedupe_key, j.correlation_id, j.parent_id,
       coalesce(p.due_at, j.scheduled_for) as scheduled_for, j.queued_at,
       coalesce(l.claimed_at, f.started_at) as started_at, f.finished_at,
       coalesce(l.attempt, p.attempt, q.attempt, f.last_attempt, 0) as attempt_count,
       coalesce(l.max_attempts, p.max_attempts, q.max_attempts, j.max_attempts) as max_attempts,
       coalesce(l.worker_id, f.worker_id) as worker_id,
       coalesce(f.error, e.error) as error, c.cost_cents, j.created_by,
       j.payload, f.result, l.progress, l.progress_note, l.cancel_reason,
       (select array_agg(x.depends_on) from windlass.dependencies x where x.job_id = j.id) as depends_on,
       (select array_agg(k.id order by k.id) from windlass.jobs k where k.parent_id = j.id and k.tenant_id = j.tenant_id) as children
from windlass.tenants t
join windlass.jobs j on j.tenant_id = t.id and j.id = $2
join windlass.definitions d on d.id = j.definition_id
join windlass.queues n on n.id = j.queue_id
left join windlass.leases l on l.job_id = j.id
left join windlass.parked p on p.job_id = j.id
left join windlass.queue q on q.queue_id = j.queue_id and q.tenant_id = j.tenant_id and q.priority = j.priority and q.job_id = j.id
left join lateral (
  select a.state, a.started_at, a.finished_at, a.worker_id, a.error, a.result,
         (select max(m.attempt) from windlass.attempts m where m.job_id = j.id) as last_attempt
  from windlass.attempts a where a.job_id = j.id and a.state is not null limit 1
) f on true
left join lateral (
  select a.error from windlass.attempts a where a.job_id = j.id and a.error is not null order by a.attempt desc limit 1
) e on f.state is null
left join lateral (
  select sum(a.cost_cents)::bigint as cost_cents from windlass.attempts a where a.job_id = j.id
) c on true
where $1::uuid is null or t.id = $1
