-- The tenant with this slug or id.
select id from windlass.tenants where slug = $1 or id::text = $1
