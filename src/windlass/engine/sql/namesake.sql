-- Workers named $1 that have not ended, as far as anybody knows: there is at most one.
select id, name, hostname, pid, birth, last_seen_at from windlass.workers where name = $1 and ended_at is null
