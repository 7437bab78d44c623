-- A worker ended as it should: it holds nothing any more.
with deaf as (delete from windlass.listening where worker_id = $1)
update windlass.workers set ended_at = clock_timestamp(), ended_why = 'left', running = 0 where id = $1 and ended_at is null
