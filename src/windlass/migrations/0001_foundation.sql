-- The shape of DESIGN §4: what was asked (jobs), what waits (queue, parked), what runs (leases),
-- what happened (attempts). A job is in exactly one of queue, parked, leases, or a final row of attempts.
-- No foreign keys between them: each would cost a lookup and a lock per job on the hot path.

create schema if not exists windlass;

-- UUIDv7 with a sub-millisecond fraction, so that ids made one after another sort in that order.
do $$
begin
  if current_setting('server_version_num')::int >= 180000 then
    create function windlass.uuid7() returns uuid language sql volatile parallel safe
      return uuidv7();
  else
    create function windlass.uuid7() returns uuid language sql volatile parallel safe as $f$
      select encode(
        substring(int8send(us / 1000) from 3)
        || substring(int2send((28672 + (us % 1000) * 4095 / 999)::int2) from 1)
        || set_byte(tail, 0, (get_byte(tail, 0) & 63) | 128), 'hex')::uuid
      from (select (extract(epoch from clock_timestamp()) * 1000000)::bigint as us,
                   substring(uuid_send(gen_random_uuid()) from 9) as tail) now
    $f$;
  end if;
end $$;

-- The smallest id of a moment: where partitions and id ranges by time begin.
create function windlass.uuid7_from(moment timestamptz) returns uuid language sql stable parallel safe
  return encode(substring(int8send((extract(epoch from moment) * 1000)::bigint) from 3)
                || '\x70008000000000000000'::bytea, 'hex')::uuid;

create function windlass.uuid7_time(id uuid) returns timestamptz language sql immutable parallel safe
  return to_timestamp(('x0000' || substring(replace(id::text, '-', '') from 1 for 12))::bit(64)::bigint / 1000.0);

create table windlass.tenants (
  id uuid primary key default windlass.uuid7(),
  -- Never like an id, since people name a tenant by either.
  slug text not null unique check (slug ~ '^[a-z0-9][a-z0-9_-]{0,62}$' and slug !~ '^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$'),
  name text not null,
  weight int not null default 1 check (weight between 1 and 1000),
  created_at timestamptz not null default clock_timestamp()
);
insert into windlass.tenants (slug, name) values ('default', 'Default');

create table windlass.queues (
  id bigint generated always as identity primary key,
  name text not null unique check (name ~ '^[A-Za-z0-9][A-Za-z0-9_.:-]{0,62}$'),
  created_at timestamptz not null default clock_timestamp()
);
insert into windlass.queues (name) values ('default');

-- Columns hold what the code says, overrides what people changed (DESIGN §3); the view below overlays them.
create table windlass.definitions (
  id uuid primary key default windlass.uuid7(),
  key text not null unique check (key ~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,119}$'),
  source text not null default '',
  kind text not null check (kind in ('handler', 'command', 'host')),
  description text not null default '',
  arg_schema jsonb not null default '{}',
  argv text[],
  env jsonb not null default '{}',
  queue text not null default 'default',
  priority int not null default 100,
  max_attempts int not null default 3 check (max_attempts between 1 and 32767),
  timeout_seconds double precision,
  backoff jsonb not null default '{}',
  dedupe_window_seconds int not null default 0,
  max_running int,
  concurrency jsonb not null default '[]',
  rate jsonb,
  schedule jsonb,
  retention_days int,
  retention_count int,
  tags text[] not null default '{}',
  hash text not null,
  overrides jsonb not null default '{}',
  is_active boolean not null default true,
  deleted_from_code boolean not null default false,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp()
);

create view windlass.effective_definitions as
select id, key, kind, description, arg_schema, argv, env,
       coalesce(overrides->>'queue', queue) as queue,
       coalesce((overrides->>'priority')::int, priority) as priority,
       coalesce((overrides->>'max_attempts')::int, max_attempts) as max_attempts,
       coalesce((overrides->>'timeout_seconds')::double precision, timeout_seconds) as timeout_seconds,
       coalesce(overrides->'backoff', backoff) as backoff,
       coalesce((overrides->>'dedupe_window_seconds')::int, dedupe_window_seconds) as dedupe_window_seconds,
       coalesce((overrides->>'retention_days')::int, retention_days) as retention_days,
       coalesce((overrides->>'retention_count')::int, retention_count) as retention_count,
       coalesce((overrides->>'is_active')::boolean, is_active) as is_active,
       tags, hash, source, overrides, deleted_from_code, created_at, updated_at
from windlass.definitions;

-- What was asked: written once, never updated. Every lookup knows its tenant, so one index serves
-- both the lookup by id and a tenant's list, newest first.
create table windlass.jobs (
  id uuid not null,
  tenant_id uuid not null,
  definition_id uuid not null,
  queue_id bigint not null,
  priority int not null,
  max_attempts int not null,
  payload jsonb not null,
  source text not null default 'manual',
  source_ref text,
  dedupe_key text,
  correlation_id text,
  parent_id uuid,
  scheduled_for timestamptz,
  queued_at timestamptz not null default clock_timestamp(),
  created_by text,
  primary key (tenant_id, id)
) partition by range (id);
create index jobs_by_correlation on windlass.jobs (tenant_id, correlation_id) where correlation_id is not null;
create index jobs_by_parent on windlass.jobs (parent_id) where parent_id is not null;
create table windlass.jobs_default partition of windlass.jobs default;

-- What may be claimed now. Narrow, one index, deleted when claimed; `attempt` counts tries already spent.
-- Vacuumed often, for little is left over each time, and in small bites: while somebody holds a snapshot there is nothing to
-- be had, and without the delay it took a whole core of looking in vain (20 M dead rows: a third off the speed of a drain).
create table windlass.queue (
  queue_id bigint not null,
  tenant_id uuid not null,
  priority int not null,
  job_id uuid not null,
  definition_id uuid not null,
  attempt int not null,
  max_attempts int not null,
  flags int not null,
  primary key (queue_id, tenant_id, priority, job_id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000000,
        autovacuum_vacuum_cost_delay = 5);

-- What waits for something other than a worker: its time, other jobs, or a limit.
create table windlass.parked (
  job_id uuid primary key,
  queue_id bigint not null,
  tenant_id uuid not null,
  priority int not null,
  definition_id uuid not null,
  attempt int not null,
  max_attempts int not null,
  flags int not null,
  why text not null check (why in ('scheduled', 'blocked', 'waiting')),
  due_at timestamptz,
  since timestamptz not null default clock_timestamp()
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_vacuum_cost_delay = 5);
create index parked_by_due on windlass.parked (why, due_at, job_id) where due_at is not null;

-- What runs. `no` is unique to each claim: it fences every write about the attempt. expires_at is not
-- indexed, so renewing a lease stays a heap-only update; rescue finds the dead through their worker.
create sequence windlass.lease_numbers as bigint cache 1;
create table windlass.leases (
  job_id uuid primary key,
  no bigint not null,
  worker_id uuid not null,
  queue_id bigint not null,
  tenant_id uuid not null,
  priority int not null,
  definition_id uuid not null,
  attempt int not null,
  max_attempts int not null,
  flags int not null,
  claimed_at timestamptz not null,
  expires_at timestamptz not null,
  cancel_reason text,
  progress real,
  progress_note text
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000000,
        autovacuum_vacuum_cost_delay = 5);
create index leases_to_cancel on windlass.leases (worker_id) where cancel_reason is not null;

-- What happened: one row per try; `state` is set on the row that ended the job (attempt 0 if it never ran).
create table windlass.attempts (
  job_id uuid not null,
  attempt int not null,
  tenant_id uuid not null,
  definition_id uuid not null,
  worker_id uuid,
  status text,
  state text,
  started_at timestamptz,
  finished_at timestamptz not null,
  exit_code int,
  cost_cents bigint,
  result jsonb,
  error text,
  stdout_tail text,
  stderr_tail text,
  primary key (job_id, attempt)
) partition by range (job_id);
create index attempts_not_succeeded on windlass.attempts (tenant_id, state, job_id)
  where state in ('failed', 'canceled', 'dead_letter');
create table windlass.attempts_default partition of windlass.attempts default;

create table windlass.dependencies (
  depends_on uuid not null,
  job_id uuid not null,
  primary key (depends_on, job_id)
);
create index dependencies_of_job on windlass.dependencies (job_id);

-- Live dedupe keys. A row outlives its job only while its window runs.
create table windlass.dedupe (
  tenant_id uuid not null,
  key text not null,
  job_id uuid not null,
  until timestamptz not null,
  ended boolean not null default false,
  primary key (tenant_id, key)
);
create index dedupe_of_job on windlass.dedupe (job_id);

-- A worker's life from one start to its end; the id is made anew at each start.
create table windlass.workers (
  id uuid primary key,
  name text not null,
  hostname text not null,
  pid int not null,
  birth text,
  version text not null,
  queues text[] not null,
  definitions text[] not null,
  concurrency int not null,
  running int not null default 0,
  rss_bytes bigint not null default 0,
  started_at timestamptz not null default clock_timestamp(),
  last_seen_at timestamptz not null default clock_timestamp(),
  ended_at timestamptz,
  ended_why text
) with (fillfactor = 50);
create unique index workers_alive on windlass.workers (name) where ended_at is null;

-- Who wants to be woken for which queue. Enqueue looks here before it pays for a NOTIFY.
create table windlass.listening (
  queue_id bigint not null,
  worker_id uuid not null,
  primary key (queue_id, worker_id)
);

create table windlass.job_logs (
  tenant_id uuid not null,
  job_id uuid not null,
  attempt int not null,
  seq bigint not null,
  at timestamptz not null,
  level text not null,
  message text not null,
  fields jsonb
) partition by range (at);
create index job_logs_of_job on windlass.job_logs (job_id, attempt, seq);
create table windlass.job_logs_default partition of windlass.job_logs default;

-- Locks a table of this schema until the end of the transaction, if that takes but a moment: those who use the table come
-- to stand behind whoever waits for such a lock.
create function windlass.lock_briefly(name text, mode text) returns boolean
language plpgsql volatile set lock_timeout = '100ms' as $$
begin
  execute format('lock table only windlass.%I in %s mode', name, mode);
  return true;
exception when lock_not_available then
  return false;
end $$;

-- Wakes whoever listens for these queues; a NOTIFY takes a global lock at commit, so only if somebody does.
create function windlass.wake(queues bigint[]) returns void language sql volatile as $$
  select pg_notify('windlass', 'queue:' || l.queue_id)
  from (select distinct queue_id from windlass.listening where queue_id = any (queues)) l
$$;

-- Ends jobs of a tenant that wait (in queue or parked) without running them: one final row each, attempt 0.
-- Answers those it ended; a job that is claimed at the same moment is left alone.
create function windlass.end_waiting(tenant uuid, ids uuid[], ended_state text, reason text) returns setof uuid
language plpgsql volatile as $$
declare
  ended uuid[];
begin
  -- See release_dependents: first these locks, in this order.
  perform from windlass.parked p where p.job_id = any (ids) and p.tenant_id = tenant order by p.job_id for update;
  with asked as materialized (
    select j.id, j.queue_id, j.tenant_id, j.priority
    from windlass.jobs j where j.tenant_id = tenant and j.id = any (ids) order by j.id
  ), unqueued as (
    delete from windlass.queue q using asked a
    where q.queue_id = a.queue_id and q.tenant_id = a.tenant_id and q.priority = a.priority and q.job_id = a.id
    returning q.job_id, q.tenant_id, q.definition_id
  ), unparked as (
    delete from windlass.parked p using asked a where p.job_id = a.id
    returning p.job_id, p.tenant_id, p.definition_id
  ), recorded as (
    insert into windlass.attempts (job_id, attempt, tenant_id, definition_id, state, finished_at, error)
    select job_id, 0, tenant_id, definition_id, ended_state, clock_timestamp(), reason
    from (select * from unqueued union all select * from unparked) e
    returning job_id
  )
  select array_agg(job_id) into ended from recorded;
  if ended is null then
    return;
  end if;
  delete from windlass.dependencies where job_id = any (ended);
  perform windlass.free_dedupe(ended);
  perform windlass.release_dependents(ended, array_fill(ended_state, array[cardinality(ended)]));
  return query select unnest(ended);
end $$;

-- The dedupe keys of ended jobs: free now, or when their window has passed.
create function windlass.free_dedupe(ids uuid[]) returns void language sql volatile as $$
  update windlass.dedupe set ended = true where job_id = any (ids) and until > clock_timestamp();
  delete from windlass.dedupe where job_id = any (ids) and until <= clock_timestamp();
$$;

-- What waited for these jobs: ready when the last of its parents has succeeded, canceled when one has not, and so on
-- down the line. `among` are the only ones to look at, if given.
create function windlass.release_dependents(parents uuid[], states text[], among uuid[] default null) returns void
language plpgsql volatile as $$
declare
  children uuid[];
begin
  while cardinality(parents) > 0 loop
    -- Before anything of them is changed they are locked, and in one order: others may end parents of the same jobs, or
    -- cancel one of them, and each would hold what the other waits for. Of two parents that end at the same moment the
    -- lock lets one go second, and its next statements see what the first one did.
    select array_agg(l.job_id) into children from (
      select p.job_id from windlass.parked p
      where p.job_id = any (array(select d.job_id from windlass.dependencies d where d.depends_on = any (parents)))
        and (among is null or p.job_id = any (among))
      order by p.job_id for update) l;
    exit when children is null;
    delete from windlass.dependencies d using unnest(parents, states) e (id, state)
    where e.state = 'succeeded' and d.depends_on = e.id and d.job_id = any (children);
    perform windlass.unpark_ready(children);
    with doomed as materialized (
      select distinct on (d.job_id) d.job_id, 'It depends on job ' || e.id || ', which ended ' || e.state || '.' as reason
      from unnest(parents, states) e (id, state) join windlass.dependencies d on d.depends_on = e.id
      where e.state <> 'succeeded' and d.job_id = any (children) order by d.job_id, e.id
    ), gone as (
      delete from windlass.parked p using doomed d where p.job_id = d.job_id
      returning p.job_id, p.tenant_id, p.definition_id, d.reason
    ), recorded as (
      insert into windlass.attempts (job_id, attempt, tenant_id, definition_id, state, finished_at, error)
      select job_id, 0, tenant_id, definition_id, 'canceled', clock_timestamp(), reason from gone returning job_id
    )
    select array_agg(job_id), array_agg('canceled'::text), null::uuid[] into parents, states, among from recorded;
    delete from windlass.dependencies where job_id = any (parents);
    perform windlass.free_dedupe(parents);
  end loop;
end $$;

-- Moves blocked jobs that wait for no job any more to the queue, or to their time if that is yet to come.
create function windlass.unpark_ready(ids uuid[]) returns void language plpgsql volatile as $$
declare
  queues bigint[];
begin
  with ready as materialized (
    select p.job_id, j.scheduled_for, coalesce(j.scheduled_for > clock_timestamp(), false) as later
    from windlass.parked p join windlass.jobs j on j.tenant_id = p.tenant_id and j.id = p.job_id
    where p.job_id = any (ids) and p.why = 'blocked'
      and not exists (select from windlass.dependencies d where d.job_id = p.job_id)
  ), later as (
    update windlass.parked p set why = 'scheduled', due_at = r.scheduled_for, since = clock_timestamp()
    from ready r where p.job_id = r.job_id and r.later
  ), now as (
    delete from windlass.parked p using ready r where p.job_id = r.job_id and not r.later returning p.*
  ), queued as (
    insert into windlass.queue (queue_id, tenant_id, priority, job_id, definition_id, attempt, max_attempts, flags)
    select queue_id, tenant_id, priority, job_id, definition_id, attempt, max_attempts, flags from now
    returning queue_id
  )
  select array_agg(distinct queue_id) into queues from queued;
  if queues is not null then
    perform windlass.wake(queues);
  end if;
end $$;

-- One job, with everything a job can have. What takes several statements or must wait for others is here;
-- plain jobs of the SDK go by a leaner statement (engine/sql/enqueue.sql). Works inside anybody's transaction.
create function windlass.enqueue_one(
  key text, payload jsonb default '{}', tenant text default 'default', priority int default null,
  delay interval default null, scheduled_for timestamptz default null, dedupe_key text default null,
  dedupe_window interval default null, correlation_id text default null, depends_on uuid[] default null,
  max_attempts int default null, source text default 'manual', source_ref text default null,
  parent_id uuid default null, created_by text default null,
  out id uuid, out deduplicated boolean
) language plpgsql volatile as $$
#variable_conflict use_column
declare
  _def record;
  _tenant uuid;
  _queue bigint;
  _due timestamptz := coalesce(enqueue_one.scheduled_for, clock_timestamp() + enqueue_one.delay);
  _flags int := (enqueue_one.dedupe_key is not null)::int;
  _priority int;
  _attempts int;
  _until timestamptz;
begin
  select d.* into _def from windlass.effective_definitions d where d.key = enqueue_one.key;
  if not found then
    raise exception using errcode = 'WL001', detail = coalesce(enqueue_one.key, '(null)'), message = format(
      'There is no definition %L. Start a worker with the code that has it, or look for its name in `windlass definitions ls`.',
      enqueue_one.key);
  elsif not _def.is_active or _def.deleted_from_code then
    raise exception using errcode = 'WL002', detail = _def.key, message = format(
      'The definition %L takes no jobs: it is switched off, or gone from the code.', _def.key);
  end if;
  select t.id into _tenant from windlass.tenants t where t.slug = enqueue_one.tenant;
  if not found then
    raise exception using errcode = 'WL003', detail = coalesce(enqueue_one.tenant, '(null)'), message = format(
      'There is no tenant %L.', enqueue_one.tenant);
  end if;
  if jsonb_typeof(enqueue_one.payload) is distinct from 'object' then
    raise exception using errcode = 'WL008', detail = _def.key, message = format(
      'The payload for %L must be a JSON object, such as ''{"user_id": 1}''.', _def.key);
  elsif octet_length(enqueue_one.payload::text) > 1048576 then
    raise exception using errcode = 'WL005', message =
      'The payload has ' || octet_length(enqueue_one.payload::text) || ' bytes; at most 1048576 can be stored.';
  end if;
  if _due > clock_timestamp() + interval '100 years' then
    raise exception using errcode = '22008', message = format('A job cannot wait until %s: at most 100 years.', _due);
  elsif enqueue_one.max_attempts not between 1 and 32767 then
    raise exception using errcode = '22003', message = format('max_attempts is %s: it must be from 1 to 32767.', enqueue_one.max_attempts);
  end if;
  select q.id into _queue from windlass.queues q where q.name = _def.queue;
  _priority := coalesce(enqueue_one.priority, _def.priority);
  _attempts := coalesce(enqueue_one.max_attempts, _def.max_attempts);
  _until := clock_timestamp() + coalesce(enqueue_one.dedupe_window, _def.dedupe_window_seconds * interval '1 second');
  id := windlass.uuid7();
  deduplicated := false;

  while enqueue_one.dedupe_key is not null loop
    -- Looked up before it is asked for: the row of a live key must not be locked, for this transaction may stay open,
    -- and the end of the job that holds the key would wait for it.
    select h.job_id into id from windlass.dedupe h
    where h.tenant_id = _tenant and h.key = enqueue_one.dedupe_key and not (h.ended and h.until <= clock_timestamp());
    if found then
      deduplicated := true;
      return;
    end if;
    id := windlass.uuid7();
    -- Waits for whoever has just taken the key in an open transaction, so the answer is never about a phantom.
    insert into windlass.dedupe (tenant_id, key, job_id, until) values (_tenant, enqueue_one.dedupe_key, enqueue_one.id, _until)
    on conflict do nothing;
    exit when found;
    update windlass.dedupe h set job_id = enqueue_one.id, until = _until, ended = false
    where h.tenant_id = _tenant and h.key = enqueue_one.dedupe_key and h.ended and h.until <= clock_timestamp();
    exit when found;  -- else the holder came or went between the statements: once more
  end loop;

  insert into windlass.jobs (id, tenant_id, definition_id, queue_id, priority, max_attempts, payload, source,
                             source_ref, dedupe_key, correlation_id, parent_id, scheduled_for, created_by)
  values (enqueue_one.id, _tenant, _def.id, _queue, _priority, _attempts, enqueue_one.payload, enqueue_one.source,
          enqueue_one.source_ref, enqueue_one.dedupe_key, enqueue_one.correlation_id, enqueue_one.parent_id, _due,
          enqueue_one.created_by);

  if cardinality(enqueue_one.depends_on) > 0 then
    perform windlass.require_jobs(_tenant, enqueue_one.depends_on);
    insert into windlass.dependencies (depends_on, job_id)
    select distinct p, enqueue_one.id from unnest(enqueue_one.depends_on) p;
    -- A parent may have ended already, or end in a transaction that cannot see this one: recheck soon.
    insert into windlass.parked (job_id, queue_id, tenant_id, priority, definition_id, attempt, max_attempts, flags, why, due_at)
    values (enqueue_one.id, _queue, _tenant, _priority, _def.id, 0, _attempts, _flags, 'blocked', clock_timestamp());
  elsif _due > clock_timestamp() then
    insert into windlass.parked (job_id, queue_id, tenant_id, priority, definition_id, attempt, max_attempts, flags, why, due_at)
    values (enqueue_one.id, _queue, _tenant, _priority, _def.id, 0, _attempts, _flags, 'scheduled', _due);
  else
    insert into windlass.queue (queue_id, tenant_id, priority, job_id, definition_id, attempt, max_attempts, flags)
    values (_queue, _tenant, _priority, enqueue_one.id, _def.id, 0, _attempts, _flags);
    perform windlass.wake(array[_queue]);
  end if;
  if cardinality(enqueue_one.depends_on) > 0 or _due <= clock_timestamp() + interval '2 seconds' then
    perform pg_notify('windlass', 'due');
  end if;
end $$;

create function windlass.require_jobs(tenant uuid, ids uuid[]) returns void language plpgsql stable as $$
declare
  missing uuid;
begin
  select i into missing from unnest(ids) i
  where not exists (select from windlass.jobs j where j.tenant_id = tenant and j.id = i) limit 1;
  if found then
    raise exception using errcode = 'WL004', detail = missing::text, message = format('There is no job %s in this tenant.', missing);
  end if;
end $$;

-- The promise to every driver, ORM and language: the job exists if and only if the caller's transaction commits.
create function windlass.enqueue(
  key text, payload jsonb default '{}', tenant text default 'default', priority int default null,
  delay interval default null, scheduled_for timestamptz default null, dedupe_key text default null,
  dedupe_window interval default null, correlation_id text default null, depends_on uuid[] default null,
  max_attempts int default null, source text default 'manual', source_ref text default null,
  parent_id uuid default null, created_by text default null
) returns uuid language sql volatile as $$
  select id from windlass.enqueue_one($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
$$;

-- Blocked jobs whose parents ended unseen by them (see enqueue_one): looked at again, ever more rarely.
create function windlass.recheck_blocked(at_most int) returns int language plpgsql volatile as $$
declare
  looked uuid[];
  parents uuid[];
  states text[];
begin
  select array_agg(job_id) into looked from (
    select job_id from windlass.parked where why = 'blocked' and due_at <= statement_timestamp()
    order by due_at limit at_most for update skip locked) l;
  if looked is null then
    return 0;
  end if;
  update windlass.parked
  set due_at = clock_timestamp() + least(greatest(clock_timestamp() - since, interval '1 second'), interval '1 hour')
  where job_id = any (looked);
  select array_agg(distinct d.depends_on), array_agg(a.state order by d.depends_on) into parents, states
  from (select distinct depends_on from windlass.dependencies where job_id = any (looked)) d
  join windlass.attempts a on a.job_id = d.depends_on and a.state is not null;
  perform windlass.release_dependents(parents, states, looked);
  perform windlass.unpark_ready(looked);
  return cardinality(looked);
end $$;
