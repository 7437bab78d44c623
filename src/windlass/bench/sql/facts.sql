-- The settings that the figures depend on.
select name, current_setting(name) as value from unnest(array[
  'server_version', 'synchronous_commit', 'fsync', 'full_page_writes', 'wal_level', 'shared_buffers', 'max_wal_size',
  'wal_compression', 'autovacuum', 'autovacuum_naptime']) name
