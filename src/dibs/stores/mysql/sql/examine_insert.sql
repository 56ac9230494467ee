-- examine_insert.sql: may this user add to that table? Refused if not; it changes nothing.
-- Race: none. Index: none. Order: none.
EXPLAIN INSERT INTO {table} () VALUES ()
