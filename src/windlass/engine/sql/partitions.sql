-- The weekly partitions there are.
select c.relname as name from pg_inherits i
join pg_class c on c.oid = i.inhrelid
where i.inhparent in ('windlass.jobs'::regclass, 'windlass.attempts'::regclass) and c.relname ~ '_p[0-9]{8}$'
