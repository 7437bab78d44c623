-- Moves scheduled jobs whose time has come to the queue. Starts at $1, the mark up to which all was moved
-- before, so that a held snapshot's dead entries are not walked again and again.
-- statement_timestamp(), because the volatile clock_timestamp() cannot bound an index scan.
-- $1 mark, $2 at most
with due as materialized (
  select ctid as place from windlass.parked
  where why = 'scheduled' and due_at >= $1 and due_at <= statement_timestamp()
  order by due_at limit $2 for update skip locked
), gone as (
  delete from windlass.parked p using due d where p.ctid = d.place returning p.*
), queued as (
  insert into windlass.queue (queue_id, tenant_id, priority, job_id, definition_id, attempt, max_attempts, flags)
  select queue_id, tenant_id, priority, job_id, definition_id, attempt, max_attempts, flags from gone
), woken as (
  select windlass.wake(array_agg(distinct queue_id)) from gone having count(*) > 0
)
select count(*) as moved, max(due_at) as last_due, clock_timestamp() as now, (select count(*) from woken) as woken from gone
