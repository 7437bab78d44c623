-- The common end, and the leanest way to it: jobs that succeeded, with no exit code, output or cost to tell.
-- Only leases that are still held under that number end; the answer names them, so the others are known lost.
-- $1 jobs, $2 lease numbers, $3 results, $4 milliseconds run, $5 milliseconds since the end
with given as materialized (
  select * from unnest($1::uuid[], $2::bigint[], $3::jsonb[], $4::float8[], $5::float8[]) as g(job_id, no, result, ran_ms, ago_ms)
), ended as (
  delete from windlass.leases l using given g where l.job_id = g.job_id and l.no = g.no
  returning l.job_id, l.no, l.attempt, l.tenant_id, l.definition_id, l.worker_id, l.flags, g.result, g.ran_ms, g.ago_ms
), recorded as (
  insert into windlass.attempts (job_id, attempt, tenant_id, definition_id, worker_id, status, state,
                                 started_at, finished_at, result)
  select job_id, attempt, tenant_id, definition_id, worker_id, 'succeeded', 'succeeded',
         clock_timestamp() - (ran_ms + ago_ms) * interval '1 millisecond',
         clock_timestamp() - ago_ms * interval '1 millisecond', result
  from ended
), freed as (
  select windlass.free_dedupe(array_agg(job_id)) from ended where flags & 1 = 1 having count(*) > 0
), released as (
  select windlass.release_dependents(array_agg(e.job_id), array_agg('succeeded'::text)) from ended e
  where exists (select from windlass.dependencies)
    and exists (select from windlass.dependencies d where d.depends_on = e.job_id)
  having count(*) > 0
)
select array_agg(no), (select count(*) from freed), (select count(*) from released) from ended
