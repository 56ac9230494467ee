-- examine_delete.sql: may this user remove from that table? Refused if not; it changes nothing.
-- Race: none. Index: none. Order: none.
EXPLAIN DELETE FROM {table} WHERE FALSE
