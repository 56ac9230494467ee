-- end_lost.sql: end connections of ours that were given up in the middle of a transaction, if the server still has them.
-- Race: one that has ended, and whose number another has: it would have to be ours too, and is opened anew. Index: none. Order: none.
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid = ANY ($1::int[]) AND usename = current_user AND application_name = 'dibs' AND xact_start IS NOT NULL
  AND pid <> pg_backend_pid()
