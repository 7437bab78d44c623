-- For the ceiling of enqueue: a plain table of the same shape as jobs, with one index and nothing else.
create table public.inserted (
  id uuid primary key default windlass.uuid7(),
  tenant_id uuid not null,
  definition_id uuid not null,
  queue_id bigint not null,
  priority int not null,
  max_attempts int not null,
  payload jsonb not null,
  queued_at timestamptz not null default clock_timestamp()
)
