-- Takes jobs of tenant $1 that ended back to the queue, with a fresh budget of attempts; answers those taken.
-- The final row of a job that never ran goes; that of one that ran becomes one of its attempts.
-- $1 tenant, $2 jobs
with asked as materialized (
  select j.id, j.tenant_id, j.queue_id, j.priority, j.definition_id, j.max_attempts
  from windlass.jobs j where j.tenant_id = $1 and j.id = any ($2::uuid[])
), unended as (
  update windlass.attempts a set state = null from asked
  where a.job_id = asked.id and a.state is not null and a.attempt > 0 returning a.job_id, a.attempt
), undone as (
  delete from windlass.attempts a using asked
  where a.job_id = asked.id and a.state is not null and a.attempt = 0 returning a.job_id
), back as (
  select a.*, coalesce((select max(t.attempt) from windlass.attempts t where t.job_id = a.id), 0) as spent
  from asked a where a.id in (select job_id from unended union all select job_id from undone)
), queued as (
  insert into windlass.queue (queue_id, tenant_id, priority, job_id, definition_id, attempt, max_attempts, flags)
  select queue_id, tenant_id, priority, id, definition_id, spent, spent + max_attempts, 0 from back
), woken as (
  select windlass.wake(array_agg(distinct queue_id)) from back having count(*) > 0
)
select id, (select count(*) from woken) as woken from back
