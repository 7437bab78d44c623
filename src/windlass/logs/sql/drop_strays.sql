-- Lines from before $1 that lie outside all days: a clock was wrong, or nobody made partitions then.
delete from windlass.job_logs_default where at < $1
