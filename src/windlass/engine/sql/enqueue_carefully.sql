-- One job by the function that users' own transactions call: dedupe and dependencies are its business.
select id, deduplicated from windlass.enqueue_one($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
