-- How far jobs say they are; only while their lease is held.
-- $1 jobs, $2 lease numbers, $3 fractions, $4 notes
with given as materialized (
  select * from unnest($1::uuid[], $2::bigint[], $3::real[], $4::text[]) as g(job_id, no, fraction, note)
)
update windlass.leases l set progress = g.fraction, progress_note = g.note
from given g where l.job_id = g.job_id and l.no = g.no
