-- Renews leases still held under these numbers; those not in the answer are lost.
-- $1 jobs, $2 lease numbers, $3 seconds
with given as materialized (
  select * from unnest($1::uuid[], $2::bigint[]) as g(job_id, no)
)
update windlass.leases l set expires_at = clock_timestamp() + $3 * interval '1 second'
from given g where l.job_id = g.job_id and l.no = g.no
returning l.no
