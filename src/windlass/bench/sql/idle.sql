-- How many workers have nothing to do and wait to be woken.
select count(distinct worker_id) from windlass.listening
