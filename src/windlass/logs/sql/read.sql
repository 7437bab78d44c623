-- A job's lines in order. $1 tenant, $2 job, $3 and $4 after this attempt and number, $5 at most
select tenant_id, job_id, attempt, seq, at, level, message, fields from windlass.job_logs
where tenant_id = $1 and job_id = $2 and (attempt, seq) > ($3::int, $4::bigint)
order by attempt, seq limit $5
