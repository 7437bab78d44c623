-- Ends these jobs of tenant $1 if they wait; answers those it ended.
-- $1 tenant, $2 jobs, $3 reason
select windlass.end_waiting($1, $2::uuid[], 'canceled', $3) as id
