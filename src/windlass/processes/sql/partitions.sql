-- Up to which day each history table has partitions, today, and what fell outside all of them.
select p.relname as history, clock_timestamp()::date as today,
       max(to_date(substring(c.relname from '_p([0-9]{8})$'), 'YYYYMMDD')
           + case p.relname when 'job_logs' then 1 else 7 end) as until
from pg_inherits i
join pg_class p on p.oid = i.inhparent
join pg_class c on c.oid = i.inhrelid
where p.oid = any (array['windlass.jobs', 'windlass.attempts', 'windlass.job_logs']::regclass[])
group by p.relname order by p.relname
