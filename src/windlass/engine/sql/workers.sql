-- Workers that live, and with $1 those that ended too.
select id, name, hostname, pid, version, queues, definitions, concurrency, running, rss_bytes, started_at, last_seen_at,
       extract(epoch from clock_timestamp() - last_seen_at)::float8 as silent_seconds, ended_at, ended_why
from windlass.workers where $1 or ended_at is null order by ended_at nulls first, name, started_at desc limit 1000
