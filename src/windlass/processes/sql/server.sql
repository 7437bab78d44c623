-- What the server is, and how it is set.
select current_setting('server_version_num')::int as version, current_setting('server_version') as told,
       current_setting('max_connections')::int as max_connections,
       (select count(*) from pg_stat_activity where backend_type = 'client backend') as connections,
       current_setting('autovacuum')::boolean as autovacuum, current_setting('fsync')::boolean as fsync,
       current_setting('full_page_writes')::boolean as full_page_writes,
       current_setting('synchronous_commit') as synchronous_commit,
       pg_is_in_recovery() as standby, pg_notification_queue_usage() as notifications
