-- An id that is earlier than all to come.
select windlass.uuid7()
