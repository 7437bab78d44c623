-- Which tenants have work in queue $1: a walk along the index from tenant to tenant, never over a backlog.
-- $2 start after this tenant, $3 at most so many
with recursive walk(tenant_id, step) as (
  (select tenant_id, 1 from windlass.queue where queue_id = $1 and tenant_id > $2 order by tenant_id limit 1)
  union all
  select (select q.tenant_id from windlass.queue q
          where q.queue_id = $1 and q.tenant_id > w.tenant_id order by q.tenant_id limit 1), step + 1
  from walk w where w.tenant_id is not null and step < $3
)
select w.tenant_id, t.weight from walk w join windlass.tenants t on t.id = w.tenant_id order by w.step
