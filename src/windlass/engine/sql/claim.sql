-- Takes up to $6 jobs of queue $1 for worker $7: from each tenant whose turn it is up to its share,
-- best priority first, then order of arrival, starting after the position given.
-- $1 queue, $2 tenants, $3 priorities, $4 job ids (positions), $5 shares, $6 limit, $7 worker,
-- $8 lease in seconds, $9 definitions this worker knows (null: all)
with turns as materialized (
  select * from unnest($2::uuid[], $3::int[], $4::uuid[], $5::int[]) as t(tenant_id, priority, job_id, share)
), picked as materialized (
  -- Materialised, with the limit inside: as an IN (subquery) it could be run again and claim too many.
  select q.place from turns t cross join lateral (
    select q.ctid as place from windlass.queue q
    where q.queue_id = $1 and q.tenant_id = t.tenant_id and (q.priority, q.job_id) > (t.priority, t.job_id)
      and ($9::uuid[] is null or q.definition_id = any ($9))
    order by q.priority, q.job_id
    limit t.share
    for update skip locked
  ) q
  limit $6
), taken as (
  delete from windlass.queue q using picked p where q.ctid = p.place returning q.*
), numbered as materialized (
  select t.*, nextval('windlass.lease_numbers') as no, clock_timestamp() as claimed_at from taken t
), leased as (
  insert into windlass.leases (job_id, no, worker_id, queue_id, tenant_id, priority, definition_id,
                               attempt, max_attempts, flags, claimed_at, expires_at)
  select job_id, no, $7, queue_id, tenant_id, priority, definition_id, attempt + 1, max_attempts, flags,
         claimed_at, claimed_at + $8 * interval '1 second'
  from numbered
)
select n.job_id, n.no, n.tenant_id, n.definition_id, n.attempt + 1 as attempt, n.max_attempts, n.priority, j.payload
from numbered n join windlass.jobs j on j.tenant_id = n.tenant_id and j.id = n.job_id
