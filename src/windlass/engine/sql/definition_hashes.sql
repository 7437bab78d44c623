-- What the database knows of each definition's code side.
select key, hash, source, deleted_from_code from windlass.definitions
