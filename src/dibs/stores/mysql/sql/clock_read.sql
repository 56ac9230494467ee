-- clock_read.sql: the time by the store's clock: the server's (or what a test tells), never before the last change.
-- Race: none, a snapshot. Index: primary key, all 64 slots. Order: none.
SELECT greatest(coalesce(%s, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))), max(clock.at)) FROM dibs_clock AS clock
