-- examine_connection.sql: how many more may connect, beyond those that are there, without being a superuser?
-- Race: others come and go; it is a look. Index: none. Order: none.
SELECT current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
       - count(*)::integer AS free, current_setting('max_connections')::integer AS most
FROM pg_stat_activity WHERE backend_type = 'client backend'
