-- examine_update.sql: may this user change that table? Refused if not; it changes nothing.
-- Race: none. Index: none. Order: none.
EXPLAIN UPDATE {table} SET {column} = NULL WHERE FALSE
