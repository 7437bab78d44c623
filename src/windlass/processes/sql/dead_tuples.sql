-- The hot table with the most dead rows.
select relname, n_dead_tup as dead from pg_stat_all_tables
where schemaname = 'windlass' and relname = any (array['queue', 'parked', 'leases', 'dedupe', 'dependencies', 'workers', 'listening'])
order by n_dead_tup desc limit 1
