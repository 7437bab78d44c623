-- The ids of these queues, made if they are new.
with made as (
  insert into windlass.queues (name) select unnest($1::text[]) on conflict do nothing returning name, id
)
select name, id from made union all select name, id from windlass.queues where name = any ($1)
