-- The ceiling of enqueue: one row, one commit.
insert into public.inserted (tenant_id, definition_id, queue_id, priority, max_attempts, payload)
values ($1, $2, $3, $4, $5, $6) returning id
