-- The session that has held its snapshot longest: no row that died since can be vacuumed. Not our own.
select pid, coalesce(nullif(application_name, ''), usename, backend_type, 'unknown') as who,
       extract(epoch from clock_timestamp() - coalesce(xact_start, backend_start))::float8 as seconds
from pg_stat_activity
where backend_xmin is not null and pid <> pg_backend_pid() and backend_type <> 'autovacuum worker'
order by seconds desc nulls last limit 1
