-- A job's lines in order. $1 tenant, $2 job, $3 and $4 after this attempt and number, $5 at most, $6 levels (null: all),
-- $7 a text that is in them (null: any)
select tenant_id, job_id, attempt, seq, at, level, message, fields from windlass.job_logs
where tenant_id = $1 and job_id = $2 and (attempt, seq) > ($3::int, $4::bigint)
  and ($6::text[] is null or level = any ($6)) and ($7::text is null or position(lower($7) in lower(message)) > 0)
order by attempt, seq limit $5
