-- Whether rows lie outside all partitions.
select exists (select from windlass.jobs_default) or exists (select from windlass.attempts_default)
       or exists (select from windlass.job_logs_default)
