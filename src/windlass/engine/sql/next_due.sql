-- Seconds until the next parked job of this kind is due, from the mark on; null when there is none.
-- $1 scheduled or blocked, $2 mark
select extract(epoch from due_at - clock_timestamp())::float8 from windlass.parked
where why = $1 and due_at >= $2 order by due_at limit 1
