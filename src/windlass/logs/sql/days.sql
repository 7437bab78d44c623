-- The daily partitions there are.
select c.relname as name from pg_inherits i
join pg_class c on c.oid = i.inhrelid
where i.inhparent = 'windlass.job_logs'::regclass and c.relname ~ '_p[0-9]{8}$'
