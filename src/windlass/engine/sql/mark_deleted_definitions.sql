-- Definitions $2 have left the code of source $1: kept for history, not runnable. Those stay that a living worker does.
update windlass.definitions d set deleted_from_code = true, updated_at = clock_timestamp()
where d.source = $1 and d.key = any ($2::text[]) and not d.deleted_from_code
  and not exists (select from windlass.workers w where w.ended_at is null and d.key = any (w.definitions))
returning d.key
