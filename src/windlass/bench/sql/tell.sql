-- One job that does nothing for queue $1, tenant $2, definition $3, and a word on channel $4 to who listens there.
with made as (
  insert into windlass.jobs (id, tenant_id, definition_id, queue_id, priority, max_attempts, payload)
  values (windlass.uuid7(), $2, $3, $1, 100, 3, '{"n": 1}') returning id
), queued as (
  insert into windlass.queue (queue_id, tenant_id, priority, job_id, definition_id, attempt, max_attempts, flags)
  select $1, $2, 100, id, $3, 0, 3, 0 from made
)
select pg_notify($4, '')
