-- Asks the workers that run these jobs of tenant $1 to stop them; answers those it asked for.
-- $1 tenant, $2 jobs, $3 reason
with asked as (
  update windlass.leases set cancel_reason = coalesce(cancel_reason, $3)
  where tenant_id = $1 and job_id = any ($2::uuid[]) returning job_id, worker_id
), told as (
  select pg_notify('windlass', 'cancel:' || worker_id) from (select distinct worker_id from asked) w
)
select job_id, (select count(*) from told) as told from asked
