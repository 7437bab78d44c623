-- Whether anything runs.
select exists (select from windlass.leases)
