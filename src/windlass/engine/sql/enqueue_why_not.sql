-- What is wrong with an enqueue that stored nothing. $1 definition keys, $2 tenant slugs
select (select k from unnest($1::text[]) k where not exists (select from windlass.definitions d where d.key = k) limit 1) as unknown_key,
       (select t from unnest($2::text[]) t where not exists (select from windlass.tenants n where n.slug = t) limit 1) as unknown_tenant,
       (select d.key from windlass.effective_definitions d
        where d.key = any ($1) and (d.deleted_from_code or not d.is_active) limit 1) as inactive_key
