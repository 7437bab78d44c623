-- Says that worker $1 wants to be woken for these queues. Losing this in a crash costs one poll, so the commit
-- need not wait for the disk.
with hasty as materialized (select set_config('synchronous_commit', 'off', true))
insert into windlass.listening (queue_id, worker_id)
select q, $1 from unnest($2::bigint[]) q, hasty on conflict do nothing
