-- How many jobs run.
select count(*) from windlass.leases
