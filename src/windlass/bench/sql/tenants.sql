-- $1 tenants to share the work.
insert into windlass.tenants (slug, name) select 'bench-' || n, 'Bench ' || n from generate_series(1, $1::int) n returning id
