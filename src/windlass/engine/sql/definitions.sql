-- All definitions as they count now.
select id, key, kind, description, arg_schema, argv, env, queue, priority, max_attempts, timeout_seconds, backoff,
       is_active, deleted_from_code, tags
from windlass.effective_definitions order by key
