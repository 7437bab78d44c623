-- A tenant's jobs, newest first, a page at a time. Candidates come from where jobs of the wanted states are few
-- (what runs, what is parked, what did not succeed) when only such are wanted, else from the jobs themselves.
-- $1 tenant, $2 states (null: all), $3 definition key, $4 correlation id, $5 source, $6 older than this id,
-- $7 created after, $8 created before, $9 at most, $10 whether only rare states are wanted, $11 words to look for (a
-- LIKE pattern), $12 how many to pass over
with rare as (
  (select job_id from windlass.leases where $10 and tenant_id = $1 and 'running' = any ($2))
  union all
  (select job_id from windlass.parked where $10 and tenant_id = $1 and why = any ($2))
  union all
  (select a.job_id from unnest($2::text[]) s cross join lateral (
     select job_id from windlass.attempts a
     where $10 and a.tenant_id = $1 and a.state = s and a.state in ('failed', 'canceled', 'dead_letter')
       and ($6::uuid is null or a.job_id < $6)
     order by a.job_id desc
     limit case when coalesce($3, $4, $5, $11) is null and coalesce($7::timestamptz, $8) is null then 2 * ($9::int + $12::int) end) a)
), candidates as (
  (select j.* from rare r join windlass.jobs j on j.tenant_id = $1 and j.id = r.job_id where $10)
  union all
  (select j.* from windlass.jobs j where not $10 and j.tenant_id = $1 and ($6::uuid is null or j.id < $6)
     and ($7::timestamptz is null or j.id >= windlass.uuid7_from($7))
     and ($8::timestamptz is null or j.id < windlass.uuid7_from($8))
   order by j.id desc)
), placed as (
  select j.id, j.tenant_id, j.definition_id, j.queue_id, j.priority, j.source, j.source_ref, j.dedupe_key, j.correlation_id,
         j.parent_id, j.scheduled_for, j.queued_at, j.created_by, s.*
  from candidates j cross join lateral (
    select case when l.job_id is not null then 'running'
                when p.job_id is not null then p.why
                when f.state is not null then f.state
                else 'queued' end as status,
           coalesce(l.attempt, p.attempt, q.attempt, nullif(f.attempt, 0),
                    (select max(m.attempt) from windlass.attempts m where m.job_id = j.id), 0) as attempt_count,
           coalesce(l.max_attempts, p.max_attempts, q.max_attempts, j.max_attempts) as max_attempts,
           coalesce(l.claimed_at, f.started_at) as started_at, f.finished_at,
           coalesce(l.worker_id, f.worker_id) as worker_id, f.error, f.cost_cents
    from (values (1)) one
    left join windlass.leases l on l.job_id = j.id
    left join windlass.parked p on p.job_id = j.id
    left join windlass.queue q on q.queue_id = j.queue_id and q.tenant_id = j.tenant_id and q.priority = j.priority and q.job_id = j.id
    left join lateral (select * from windlass.attempts a where a.job_id = j.id and a.state is not null limit 1) f on true
  ) s
  where ($6::uuid is null or j.id < $6)
    and ($4::text is null or j.correlation_id = $4) and ($5::text is null or j.source = $5)
    and ($7::timestamptz is null or j.queued_at >= $7) and ($8::timestamptz is null or j.queued_at < $8)
    and ($2::text[] is null or s.status = any ($2))
    and ($11::text is null or j.correlation_id ilike $11 or j.dedupe_key ilike $11 or j.source_ref ilike $11 or j.id::text ilike $11
         or j.definition_id in (select d.id from windlass.definitions d where d.key ilike $11))
    and ($3::text is null or j.definition_id = (select d.id from windlass.definitions d where d.key = $3))
  order by j.id desc limit $9::int offset $12::int
)
select p.*, d.key as definition_key, n.name as queue, t.slug as tenant
from placed p
join windlass.definitions d on d.id = p.definition_id
join windlass.queues n on n.id = p.queue_id
join windlass.tenants t on t.id = p.tenant_id
order by p.id desc
