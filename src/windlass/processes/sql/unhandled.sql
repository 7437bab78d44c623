-- Definitions whose jobs wait in a queue, although no worker that lives handles them and looks there.
-- $1 seconds of silence after which a worker does not count
select d.key, n.name as queue, w.jobs
from (select definition_id, queue_id, count(*) as jobs from windlass.queue group by definition_id, queue_id) w
join windlass.definitions d on d.id = w.definition_id
join windlass.queues n on n.id = w.queue_id
where not exists (
  select from windlass.workers k
  where k.ended_at is null and k.last_seen_at > clock_timestamp() - $1 * interval '1 second'
    and d.key = any (k.definitions) and n.name = any (k.queues))
order by w.jobs desc, d.key
