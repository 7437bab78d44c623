-- Queues that workers who live look into, although no definition that may run sends jobs there. They all look into default.
-- $1 seconds of silence after which a worker does not count
select distinct l.queue
from windlass.workers k, unnest(k.queues) l (queue)
where k.ended_at is null and k.last_seen_at > clock_timestamp() - $1 * interval '1 second' and l.queue <> 'default'
  and not exists (select from windlass.effective_definitions d where d.queue = l.queue and not d.deleted_from_code)
order by l.queue
