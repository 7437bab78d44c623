-- The code's side of one definition; overrides stay, unless $22 clears them.
insert into windlass.definitions (key, kind, description, arg_schema, argv, env, queue, priority, max_attempts, timeout_seconds,
  backoff, dedupe_window_seconds, max_running, concurrency, rate, schedule, retention_days, retention_count, tags, hash, source)
select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21
where $22::boolean is not null
on conflict (key) do update set (kind, description, arg_schema, argv, env, queue, priority, max_attempts, timeout_seconds,
  backoff, dedupe_window_seconds, max_running, concurrency, rate, schedule, retention_days, retention_count, tags, hash, source,
  deleted_from_code, updated_at, overrides) =
 (excluded.kind, excluded.description, excluded.arg_schema, excluded.argv, excluded.env, excluded.queue, excluded.priority,
  excluded.max_attempts, excluded.timeout_seconds, excluded.backoff, excluded.dedupe_window_seconds, excluded.max_running,
  excluded.concurrency, excluded.rate, excluded.schedule, excluded.retention_days, excluded.retention_count, excluded.tags,
  excluded.hash, excluded.source, false, clock_timestamp(), case when $22 then '{}'::jsonb else definitions.overrides end)
