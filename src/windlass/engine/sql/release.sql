-- Gives jobs back unstarted: the attempt is not spent, and no trace is left; but one that was asked to cancel ends.
-- $1 jobs, $2 lease numbers, ascending, $3 worker
with back as (
  delete from windlass.leases l
  where l.job_id = any ($1::uuid[]) and l.no = ($2::bigint[])[width_bucket(l.no, $2::bigint[])]
    and l.job_id = ($1::uuid[])[width_bucket(l.no, $2::bigint[])] and l.worker_id = $3
  returning l.*
), queued as (
  insert into windlass.queue (queue_id, tenant_id, priority, job_id, definition_id, attempt, max_attempts, flags)
  select queue_id, tenant_id, priority, job_id, definition_id, attempt - 1, max_attempts, flags from back where cancel_reason is null
), recorded as (
  insert into windlass.attempts (job_id, attempt, tenant_id, definition_id, worker_id, status, state, started_at, finished_at, error)
  select job_id, attempt, tenant_id, definition_id, worker_id, 'canceled', 'canceled', claimed_at, clock_timestamp(), cancel_reason
  from back where cancel_reason is not null
), freed as (
  select windlass.free_dedupe(array_agg(job_id)) from back where cancel_reason is not null and flags & 1 = 1 having count(*) > 0
), released as (
  select windlass.release_dependents(array_agg(job_id), array_agg('canceled'::text)) from back where cancel_reason is not null
  having count(*) > 0
), woken as (
  select windlass.wake(array_agg(distinct queue_id)) from back where cancel_reason is null having count(*) > 0
)
select count(*), (select count(*) from woken) + (select count(*) from freed) + (select count(*) from released) as told from back
