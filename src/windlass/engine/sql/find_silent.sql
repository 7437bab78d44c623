-- Declares workers dead that have been silent for $1 seconds, and answers whether any died lately:
-- only then are the leases worth a look.
with silent as (
  update windlass.workers set ended_at = clock_timestamp(), ended_why = 'silent'
  where ended_at is null and last_seen_at < clock_timestamp() - $1 * interval '1 second'
  returning name
)
select (select array_agg(name) from silent) as silent,
       exists (select from silent) or exists (
         select from windlass.workers
         where ended_at > clock_timestamp() - 3 * $1 * interval '1 second' and ended_why <> 'left') as any_dead
