-- examine_server.sql: who are we, where, and what time is it there?
-- Race: none. Index: none. Order: none.
SELECT current_setting('server_version_num')::integer AS version, current_user::text AS me,
       pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on' AS read_only,
       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now
