-- Plain jobs (no dedupe key, no dependencies), one or many, in one statement. Answers one id per job in
-- the order given; none at all, and nothing is stored, when a definition or tenant is unknown or inactive.
-- $1 definition keys, $2 tenant slugs, $3 payloads, $4 priorities, $5 delays in seconds, $6 due times,
-- $7 max attempts, $8 correlation ids, $9 parents, $10 sources, $11 source refs, $12 created by
with given as materialized (
  select g.*, d.id as definition_id, t.id as tenant_id, q.id as queue_id,
         coalesce(g.given_priority, d.priority) as priority,
         coalesce(g.given_max_attempts, d.max_attempts) as max_attempts,
         coalesce(g.given_due_at, clock_timestamp() + g.delay * interval '1 second') as due_at
  from unnest($1::text[], $2::text[], $3::jsonb[], $4::int[], $5::float8[], $6::timestamptz[],
              $7::int[], $8::text[], $9::uuid[], $10::text[], $11::text[], $12::text[]) with ordinality
       as g(key, tenant, payload, given_priority, delay, given_due_at,
            given_max_attempts, correlation_id, parent_id, source, source_ref, created_by, turn)
  left join windlass.effective_definitions d on d.key = g.key and d.is_active and not d.deleted_from_code
  left join windlass.tenants t on t.slug = g.tenant
  left join windlass.queues q on q.name = d.queue
), sound as materialized (
  -- Whether it is due is decided once: asked twice, the clock puts what is due in between into both places or neither.
  select windlass.uuid7() as id, coalesce(due_at > clock_timestamp(), false) as later, given.* from given
  where not exists (select from given where definition_id is null or tenant_id is null or queue_id is null)
), asked as (
  insert into windlass.jobs (id, tenant_id, definition_id, queue_id, priority, max_attempts, payload,
                             source, source_ref, correlation_id, parent_id, scheduled_for, created_by)
  select id, tenant_id, definition_id, queue_id, priority, max_attempts, payload,
         source, source_ref, correlation_id, parent_id, due_at, created_by
  from sound
), queued as (
  insert into windlass.queue (queue_id, tenant_id, priority, job_id, definition_id, attempt, max_attempts, flags)
  select queue_id, tenant_id, priority, id, definition_id, 0, max_attempts, 0
  from sound where not later
), parked as (
  insert into windlass.parked (job_id, queue_id, tenant_id, priority, definition_id, attempt, max_attempts, flags, why, due_at)
  select id, queue_id, tenant_id, priority, definition_id, 0, max_attempts, 0, 'scheduled', due_at
  from sound where later
), woken as (
  -- A NOTIFY takes a global lock at commit: only when somebody waits for this queue.
  select pg_notify('windlass', 'queue:' || l.queue_id)
  from (select distinct queue_id from windlass.listening) l
  where exists (select from sound s where s.queue_id = l.queue_id and not s.later)
), hurried as (
  -- Those who promote look every second; what is due before that they must be told.
  select pg_notify('windlass', 'due')
  where exists (select from sound where later and due_at <= clock_timestamp() + interval '2 seconds')
)
select id, (select count(*) from woken) + (select count(*) from hurried) as told from sound order by turn
