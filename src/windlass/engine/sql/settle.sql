-- Any end of an attempt: the job ends, or goes back to wait. Matches settle_succeeded.sql, and does more.
-- $1 jobs, $2 lease numbers, $3 attempt statuses, $4 end states (null: goes back), $5 results, $6 errors,
-- $7 seconds to wait, $8 whether the attempt is spent, $9 milliseconds run, $10 milliseconds since the end,
-- $11 exit codes, $12 costs, $13 and $14 tails of output
with given as materialized (
  select * from unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::jsonb[], $6::text[], $7::float8[], $8::boolean[],
                       $9::float8[], $10::float8[], $11::int[], $12::bigint[], $13::text[], $14::text[])
    as g(job_id, no, status, state, result, error, retry_after, spent, ran_ms, ago_ms, exit_code, cost_cents, stdout_tail, stderr_tail)
), ended as (
  delete from windlass.leases l using given g where l.job_id = g.job_id and l.no = g.no
  returning l.attempt, l.tenant_id, l.definition_id, l.worker_id, l.queue_id, l.priority, l.max_attempts, l.flags, g.*
), recorded as (
  insert into windlass.attempts (job_id, attempt, tenant_id, definition_id, worker_id, status, state, started_at, finished_at,
                                 exit_code, cost_cents, result, error, stdout_tail, stderr_tail)
  select e.job_id, attempt, tenant_id, definition_id, worker_id, status, state,
         clock_timestamp() - (ran_ms + ago_ms) * interval '1 millisecond',
         clock_timestamp() - ago_ms * interval '1 millisecond',
         exit_code, cost_cents, result, error, stdout_tail, stderr_tail
  from ended e where spent or state is not null
), queued as (
  insert into windlass.queue (queue_id, tenant_id, priority, job_id, definition_id, attempt, max_attempts, flags)
  select queue_id, tenant_id, priority, job_id, definition_id, attempt - (not spent)::int, max_attempts, flags
  from ended where state is null and retry_after <= 0
), parked as (
  insert into windlass.parked (job_id, queue_id, tenant_id, priority, definition_id, attempt, max_attempts, flags, why, due_at)
  select job_id, queue_id, tenant_id, priority, definition_id, attempt - (not spent)::int, max_attempts, flags,
         'scheduled', clock_timestamp() + retry_after * interval '1 second'
  from ended where state is null and retry_after > 0
), freed as (
  select windlass.free_dedupe(array_agg(job_id)) from ended where state is not null and flags & 1 = 1 having count(*) > 0
), released as (
  select windlass.release_dependents(array_agg(e.job_id), array_agg(e.state)) from ended e
  where state is not null and exists (select from windlass.dependencies d where d.depends_on = e.job_id)
  having count(*) > 0
), woken as (
  select windlass.wake(array_agg(distinct queue_id)) from ended where state is null and retry_after <= 0 having count(*) > 0
), hurried as (
  select pg_notify('windlass', 'due') where exists (select from ended where state is null and retry_after > 0 and retry_after <= 2)
)
select array_agg(no), (select count(*) from freed), (select count(*) from released), (select count(*) from woken),
       (select count(*) from hurried)
from ended
