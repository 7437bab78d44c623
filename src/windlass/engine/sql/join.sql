-- A worker starts; no row if one of its name has not ended.
insert into windlass.workers (id, name, hostname, pid, birth, version, queues, definitions, concurrency)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
on conflict (name) where ended_at is null do nothing
returning id
