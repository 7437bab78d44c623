-- Jobs that wait for other jobs, and since when the first of them does.
select count(*) as jobs, extract(epoch from clock_timestamp() - min(since))::float8 as seconds
from windlass.parked where why = 'blocked'
