-- Batches that share dedupe keys go one after the other: each takes its keys in an order of its own, and would hold what
-- the other waits for. In few locks, since the server has not many. $1 keys
select pg_advisory_xact_lock(774301, bucket)
from (select distinct hashtext(key) % 64 as bucket from unnest($1::text[]) as k(key) order by bucket) b
