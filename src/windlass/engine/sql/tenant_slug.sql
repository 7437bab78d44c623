-- The slug of tenant $1.
select slug from windlass.tenants where id = $1
