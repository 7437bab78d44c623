-- What went into these jobs of tenant $1 and came out of them. $2 jobs
select j.id, j.payload, f.result
from windlass.jobs j
left join lateral (select a.result from windlass.attempts a where a.job_id = j.id and a.state is not null limit 1) f on true
where j.tenant_id = $1 and j.id = any ($2::uuid[])
