-- The worker's running jobs that somebody asked to stop.
select job_id, no, cancel_reason from windlass.leases where worker_id = $1 and cancel_reason is not null
