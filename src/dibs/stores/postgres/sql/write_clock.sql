-- write_clock.sql: the time that something is being changed at, for all who share the database.
-- Race: two at once: the later stays, but for the blink between reading and setting. Index: none. Order: none.
SELECT setval('dibs_clock', greatest($1::bigint, (SELECT last_value FROM dibs_clock)))
