-- Workers that ended a week ago, and wishes to be woken of those that ended at all.
with gone as (
  delete from windlass.workers where ended_at < clock_timestamp() - interval '7 days'
)
delete from windlass.listening l where not exists (select from windlass.workers w where w.id = l.worker_id and w.ended_at is null)
