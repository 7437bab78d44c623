-- $1 jobs that do nothing, for queue $2, dealt out in turn to the tenants $3; definition $4. One statement, so that
-- whoever looks sees none of them or all.
with made as (
  insert into windlass.jobs (id, tenant_id, definition_id, queue_id, priority, max_attempts, payload)
  select windlass.uuid7(), ($3::uuid[])[1 + n % cardinality($3::uuid[])], $4, $2, 100, 3, '{"n": 1}'
  from generate_series(1, $1::int) n
  returning id, tenant_id
), queued as (
  insert into windlass.queue (queue_id, tenant_id, priority, job_id, definition_id, attempt, max_attempts, flags)
  select $2, tenant_id, 100, id, $4, 0, 3, 0 from made
)
select windlass.wake(array[$2])
