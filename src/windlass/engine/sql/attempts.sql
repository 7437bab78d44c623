-- The tries of one job, and the one in progress. $1 tenant, $2 job
select attempt as attempt_no, status, worker_id, started_at, finished_at,
       extract(epoch from finished_at - started_at)::float8 * 1000 as duration_ms,
       exit_code, error, stdout_tail, stderr_tail
from windlass.attempts where job_id = $2 and tenant_id = $1 and attempt > 0
union all
select attempt, 'running', worker_id, claimed_at, null, null, null, null, null, null
from windlass.leases where job_id = $2 and tenant_id = $1
order by attempt_no
