-- Renews leases still held under these numbers; those not in the answer are lost.
-- $1 jobs, $2 lease numbers, ascending, $3 seconds, $4 worker
update windlass.leases l set expires_at = clock_timestamp() + $3 * interval '1 second'
where l.job_id = any ($1::uuid[]) and l.no = ($2::bigint[])[width_bucket(l.no, $2::bigint[])]
  and l.job_id = ($1::uuid[])[width_bucket(l.no, $2::bigint[])] and l.worker_id = $4
returning l.no
