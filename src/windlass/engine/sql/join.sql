-- A worker starts.
insert into windlass.workers (id, name, hostname, pid, version, queues, definitions, concurrency)
values ($1, $2, $3, $4, $5, $6, $7, $8)
