-- Whether any job with an id in [$1, $2) still waits or runs, or ended after $3.
select exists (select from windlass.leases where job_id >= $1::uuid and job_id < $2::uuid)
    or exists (select from windlass.parked where job_id >= $1::uuid and job_id < $2::uuid)
    or exists (select from windlass.queue where job_id >= $1::uuid and job_id < $2::uuid)
    or exists (select from windlass.attempts where job_id >= $1::uuid and job_id < $2::uuid and finished_at > $3)
