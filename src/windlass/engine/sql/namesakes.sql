-- Workers named $1 that have not ended, as far as anybody knows.
select id, name, hostname, pid, version, queues, definitions, concurrency, running, rss_bytes, started_at, last_seen_at,
       extract(epoch from clock_timestamp() - last_seen_at)::float8 as silent_seconds, ended_at, ended_why
from windlass.workers where name = $1 and ended_at is null order by started_at
