-- Lays a person's choices over the code's side; a null takes one back. $1 key, $2 overrides
update windlass.definitions set overrides = jsonb_strip_nulls(overrides || $2), updated_at = clock_timestamp()
where key = $1 returning key
