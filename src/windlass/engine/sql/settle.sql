-- Any end of an attempt: the job ends, or goes back to wait; one that was asked to cancel does not go back, even if its
-- worker had not heard of that. Matches settle_succeeded.sql, and does more.
-- $1 jobs, $2 lease numbers, ascending, $3 attempt statuses, $4 end states (null: goes back), $5 results, $6 errors,
-- $7 seconds to wait, $8 whether the attempt is spent, $9 milliseconds run, $10 milliseconds since the end,
-- $11 exit codes, $12 costs, $13 and $14 tails of output, $15 worker
with held as (
  delete from windlass.leases l
  where l.job_id = any ($1::uuid[]) and l.no = ($2::bigint[])[width_bucket(l.no, $2::bigint[])]
    and l.job_id = ($1::uuid[])[width_bucket(l.no, $2::bigint[])] and l.worker_id = $15
  returning l.*, width_bucket(l.no, $2::bigint[]) as place
), ended as materialized (
  select h.job_id, h.no, h.attempt, h.tenant_id, h.definition_id, h.worker_id, h.queue_id, h.priority, h.max_attempts, h.flags,
         ($3::text[])[place] as status, ($5::jsonb[])[place] as result,
         coalesce(($4::text[])[place], case when h.cancel_reason is not null then 'canceled' end) as state,
         case when h.cancel_reason is null or ($4::text[])[place] is not null then ($6::text[])[place]
              else concat_ws(E'\n', 'It was asked to cancel: ' || h.cancel_reason, ($6::text[])[place]) end as error,
         ($7::float8[])[place] as retry_after, ($8::boolean[])[place] as spent, ($9::float8[])[place] as ran_ms, ($10::float8[])[place] as ago_ms,
         ($11::int[])[place] as exit_code, ($12::bigint[])[place] as cost_cents, ($13::text[])[place] as stdout_tail, ($14::text[])[place] as stderr_tail
  from held h
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
