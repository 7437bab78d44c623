-- Ends these jobs of tenant $1 if they wait; answers those it ended.
-- $1 tenant, $2 jobs, $3 reason
select windlass.end_waiting(array_agg(id), 'canceled', $3) as id
from windlass.jobs where tenant_id = $1 and id = any ($2::uuid[]) having count(*) > 0
