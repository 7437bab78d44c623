-- Says that worker $1 is busy and looks by itself.
with hasty as materialized (select set_config('synchronous_commit', 'off', true))
delete from windlass.listening using hasty where worker_id = $1
