-- examine_select.sql: may this user read that table? Refused if not; it finds nothing.
-- Race: none. Index: none. Order: none.
SELECT 1 FROM {table} WHERE FALSE
