-- Whether any job with an id in [$1, $2) still waits or runs.
select exists (select from windlass.leases where job_id >= $1::uuid and job_id < $2::uuid)
    or exists (select from windlass.parked where job_id >= $1::uuid and job_id < $2::uuid)
    or exists (select from windlass.queue where job_id >= $1::uuid and job_id < $2::uuid)
