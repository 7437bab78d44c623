-- Takes jobs of tenant $1 that ended back to the queue, with a fresh budget of attempts; answers those taken.
-- The final row of a job that never ran goes; that of one that ran becomes one of its attempts. A job with a dedupe key
-- takes its key back, and stays as it is if a living job has that now.
-- $1 tenant, $2 jobs
with asked as materialized (
  select j.id, j.tenant_id, j.queue_id, j.priority, j.definition_id, j.max_attempts, j.dedupe_key,
         row_number() over (partition by j.dedupe_key order by j.id desc) as turn
  from windlass.jobs j join windlass.attempts a on a.job_id = j.id and a.state is not null
  where j.tenant_id = $1 and j.id = any ($2::uuid[])
), keyed as (
  insert into windlass.dedupe as held (tenant_id, key, job_id, until)
  select tenant_id, dedupe_key, id, clock_timestamp() from asked where dedupe_key is not null and turn = 1
  on conflict on constraint dedupe_pkey do update
    set job_id = excluded.job_id, until = greatest(held.until, excluded.until), ended = false
    where held.ended or held.job_id = excluded.job_id
  returning job_id
), free as materialized (
  select * from asked where dedupe_key is null or id in (select job_id from keyed)
), unended as (
  update windlass.attempts a set state = null from free
  where a.job_id = free.id and a.state is not null and a.attempt > 0 returning a.job_id, a.attempt
), undone as (
  delete from windlass.attempts a using free
  where a.job_id = free.id and a.state is not null and a.attempt = 0 returning a.job_id
), back as (
  select f.*, coalesce((select max(t.attempt) from windlass.attempts t where t.job_id = f.id), 0) as spent
  from free f where f.id in (select job_id from unended union all select job_id from undone)
), queued as (
  insert into windlass.queue (queue_id, tenant_id, priority, job_id, definition_id, attempt, max_attempts, flags)
  select queue_id, tenant_id, priority, id, definition_id, spent, spent + max_attempts, (dedupe_key is not null)::int from back
), woken as (
  select windlass.wake(array_agg(distinct queue_id)) from back having count(*) > 0
)
select id, (select count(*) from woken) as woken from back
