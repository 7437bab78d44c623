-- How a job of tenant $1 ended; no row while it has not. $2 job
select state, result, error from windlass.attempts where job_id = $2 and tenant_id = $1 and state is not null
