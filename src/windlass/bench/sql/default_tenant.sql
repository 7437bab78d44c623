-- The tenant that all have.
select id from windlass.tenants where slug = 'default'
