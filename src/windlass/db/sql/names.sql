-- The partitions of tables $1 that are named for their time.
select c.relname as name from pg_inherits i
join pg_class c on c.oid = i.inhrelid join pg_class p on p.oid = i.inhparent
where p.relnamespace = 'windlass'::regnamespace and p.relname = any ($1::text[]) and c.relname ~ '_p[0-9]{8}$'
