-- A worker says it is alive. No row in the answer: it has been declared dead, and must stop.
-- $1 worker, $2 jobs running, $3 resident bytes
update windlass.workers set last_seen_at = clock_timestamp(), running = $2, rss_bytes = $3
where id = $1 and ended_at is null
returning id
