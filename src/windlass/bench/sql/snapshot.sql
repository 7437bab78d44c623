-- Takes the snapshot that the transaction keeps.
select pg_current_snapshot()::text
