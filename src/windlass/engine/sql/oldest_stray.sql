-- When the oldest job was asked for that lies outside all weeks; null, at once, when none does, which is usual.
select windlass.uuid7_time(id) from windlass.jobs_default order by id limit 1
