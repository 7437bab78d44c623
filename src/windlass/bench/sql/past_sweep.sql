-- What autovacuum would have done long ago.
vacuum (analyze) windlass.jobs, windlass.attempts
