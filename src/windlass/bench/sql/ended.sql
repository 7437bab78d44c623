-- How many jobs have succeeded whose ids are later than $1.
select count(*) from windlass.attempts where job_id > $1 and state = 'succeeded'
