-- How far jobs say they are; only while their lease is held.
-- $1 jobs, $2 lease numbers, ascending, $3 fractions, $4 notes, $5 worker
update windlass.leases l
set progress = ($3::real[])[width_bucket(l.no, $2::bigint[])], progress_note = ($4::text[])[width_bucket(l.no, $2::bigint[])]
where l.job_id = any ($1::uuid[]) and l.no = ($2::bigint[])[width_bucket(l.no, $2::bigint[])]
  and l.job_id = ($1::uuid[])[width_bucket(l.no, $2::bigint[])] and l.worker_id = $5
