-- Declares workers dead that have been silent for $1 seconds, and answers whether any died lately: only then are the
-- leases worth a look. Nothing is done when the clock is past $2 (null: whatever it shows): then it has jumped, or this
-- statement was long on its way, and the silence proves nothing.
with now as materialized (
  select clock_timestamp() as clock
), silent as (
  update windlass.workers w set ended_at = n.clock, ended_why = 'silent'
  from now n
  where w.ended_at is null and w.last_seen_at < n.clock - $1 * interval '1 second' and n.clock <= coalesce($2::timestamptz, n.clock)
  returning w.id, w.name
), deaf as (
  delete from windlass.listening l using silent s where l.worker_id = s.id
)
select n.clock, n.clock <= coalesce($2::timestamptz, n.clock) as counts, (select array_agg(name) from silent) as silent,
       exists (select from silent) or exists (
         select from windlass.workers
         where ended_at > n.clock - 3 * $1 * interval '1 second' and ended_why <> 'left') as any_dead
from now n
