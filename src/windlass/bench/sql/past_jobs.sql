-- Jobs that succeeded in the past weeks, evenly spread: the $1-th to the $2-th of $3. $4 tenant, $5 definition, $6 queue
with times as (
  select date_trunc('week', clock_timestamp() at time zone 'UTC') at time zone 'UTC' - interval '28 days' as first
), past as materialized (
  select (substring(windlass.uuid7_from(t.first + interval '28 days' * (n::float8 / $3))::text for 15)
          || substring(gen_random_uuid()::text from 16))::uuid as id
  from times t, generate_series($1::bigint, $2::bigint) n
), asked as (
  insert into windlass.jobs (id, tenant_id, definition_id, queue_id, priority, max_attempts, payload, queued_at)
  select id, $4, $5, $6, 100, 3, '{"n": 1}', windlass.uuid7_time(id) from past
)
insert into windlass.attempts (job_id, attempt, tenant_id, definition_id, worker_id, status, state, started_at, finished_at)
select id, 1, $4, $5, $4, 'succeeded', 'succeeded', windlass.uuid7_time(id), windlass.uuid7_time(id) from past
