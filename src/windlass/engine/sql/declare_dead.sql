-- Somebody who knows says that worker $1 is dead.
with deaf as (delete from windlass.listening where worker_id = $1)
update windlass.workers set ended_at = clock_timestamp(), ended_why = 'replaced' where id = $1 and ended_at is null
