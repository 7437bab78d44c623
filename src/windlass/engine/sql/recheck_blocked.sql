-- Looks again at up to $1 blocked jobs; see the function.
select windlass.recheck_blocked($1)
