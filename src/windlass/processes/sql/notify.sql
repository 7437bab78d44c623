-- Says $2 to whoever listens on channel $1.
select pg_notify($1, $2)
