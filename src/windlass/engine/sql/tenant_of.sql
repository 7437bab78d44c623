-- Whose job this is. $1 job
select t.id from windlass.tenants t where exists (select from windlass.jobs j where j.tenant_id = t.id and j.id = $1)
