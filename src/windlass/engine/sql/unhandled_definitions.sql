-- Definitions that send jobs to queues $1 and are not among $2.
select key from windlass.effective_definitions where queue = any ($1::text[]) and id <> all ($2::uuid[]) order by key
