-- How many jobs of a tenant (null: of all) are in each place that is not history.
select 'queued' as state, count(*) from windlass.queue where $1::uuid is null or tenant_id = $1
union all
select why, count(*) from windlass.parked where $1::uuid is null or tenant_id = $1 group by why
union all
select 'running', count(*) from windlass.leases where $1::uuid is null or tenant_id = $1
