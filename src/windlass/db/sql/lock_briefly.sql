-- Whether the lock on table $1, in mode $2, could be had within a moment; see the function.
select windlass.lock_briefly($1, $2)
