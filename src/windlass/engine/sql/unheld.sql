-- Leases of worker $1 other than those numbered $2.
select job_id, no from windlass.leases where worker_id = $1 and no <> all ($2::bigint[])
