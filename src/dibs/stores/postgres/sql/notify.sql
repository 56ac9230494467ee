-- notify.sql: tell other processes what has come in.
-- Race: a hint only, after the commit and on its own: inside, it would hold up every other commit that tells something.
--   Index: none. Order: none.
SELECT pg_notify($1, $2)
