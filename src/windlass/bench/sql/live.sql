-- Whether anything waits or runs: in one statement, so that a claim not yet committed is still seen to wait.
select exists (select from windlass.queue) or exists (select from windlass.leases)
