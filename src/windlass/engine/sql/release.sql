-- Gives jobs back unstarted: the attempt is not spent, and no trace is left.
-- $1 jobs, $2 lease numbers, ascending
with back as (
  delete from windlass.leases l
  where l.job_id = any ($1::uuid[]) and l.no = ($2::bigint[])[width_bucket(l.no, $2::bigint[])]
    and l.job_id = ($1::uuid[])[width_bucket(l.no, $2::bigint[])]
  returning l.*
), queued as (
  insert into windlass.queue (queue_id, tenant_id, priority, job_id, definition_id, attempt, max_attempts, flags)
  select queue_id, tenant_id, priority, job_id, definition_id, attempt - 1, max_attempts, flags from back
), woken as (
  select windlass.wake(array_agg(distinct queue_id)) from back having count(*) > 0
)
select count(*), (select count(*) from woken) from back
