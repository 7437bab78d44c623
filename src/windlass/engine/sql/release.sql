-- Gives jobs back unstarted: the attempt is not spent, and no trace is left.
-- $1 jobs, $2 lease numbers
with given as materialized (
  select * from unnest($1::uuid[], $2::bigint[]) as g(job_id, no)
), back as (
  delete from windlass.leases l using given g where l.job_id = g.job_id and l.no = g.no returning l.*
), queued as (
  insert into windlass.queue (queue_id, tenant_id, priority, job_id, definition_id, attempt, max_attempts, flags)
  select queue_id, tenant_id, priority, job_id, definition_id, attempt - 1, max_attempts, flags from back
), woken as (
  select windlass.wake(array_agg(distinct queue_id)) from back having count(*) > 0
)
select count(*), (select count(*) from woken) from back
