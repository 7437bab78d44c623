-- Takes back what dead workers held: the attempt is lost and spent, and the job goes back with some jitter,
-- or to the dead letters when that was its last. Not subject to any limit, or leaked slots could block it.
-- $1 at most, $2 jitter in seconds, $3 only this worker's (null: every lease that has run out)
with lost as materialized (
  select l.ctid as place from windlass.leases l
  where case when $3::uuid is null then l.expires_at < clock_timestamp() else l.worker_id = $3 end
  limit $1 for update skip locked
), taken as (
  delete from windlass.leases l using lost where l.ctid = lost.place returning l.*
), recorded as (
  insert into windlass.attempts (job_id, attempt, tenant_id, definition_id, worker_id, status, state, started_at, finished_at, error)
  select job_id, attempt, tenant_id, definition_id, worker_id,
         'lost', case when cancel_reason is not null then 'canceled' when attempt >= max_attempts then 'dead_letter' end,
         claimed_at, clock_timestamp(),
         'The worker was lost (killed, frozen or cut off) while it held this job.'
         || coalesce(' It had been asked to cancel: ' || cancel_reason, '')
  from taken
), ended as (
  select job_id, flags, case when cancel_reason is not null then 'canceled' else 'dead_letter' end as state
  from taken where attempt >= max_attempts or cancel_reason is not null
), back as (
  select *, clock_timestamp() + random() * $2 * interval '1 second' as due_at
  from taken where attempt < max_attempts and cancel_reason is null
), queued as (
  insert into windlass.queue (queue_id, tenant_id, priority, job_id, definition_id, attempt, max_attempts, flags)
  select queue_id, tenant_id, priority, job_id, definition_id, attempt, max_attempts, flags from back where $2 <= 0
), parked as (
  insert into windlass.parked (job_id, queue_id, tenant_id, priority, definition_id, attempt, max_attempts, flags, why, due_at)
  select job_id, queue_id, tenant_id, priority, definition_id, attempt, max_attempts, flags, 'scheduled', due_at
  from back where $2 > 0
), freed as (
  select windlass.free_dedupe(array_agg(job_id)) from ended where flags & 1 = 1 having count(*) > 0
), released as (
  select windlass.release_dependents(array_agg(job_id), array_agg(state)) from ended having count(*) > 0
), woken as (
  select windlass.wake(array_agg(distinct queue_id)) from back where $2 <= 0 having count(*) > 0
), hurried as (
  select pg_notify('windlass', 'due') where exists (select from back where $2 > 0)
)
select (select count(*) from taken) as lost, (select count(*) from ended) as ended,
       (select count(*) from freed) + (select count(*) from released) + (select count(*) from woken)
       + (select count(*) from hurried) as told
