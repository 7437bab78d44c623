-- Definitions of source $1 that are not among $2 have left the code: kept for history, not runnable.
update windlass.definitions set deleted_from_code = true, updated_at = clock_timestamp()
where source = $1 and not deleted_from_code and key <> all ($2::text[])
