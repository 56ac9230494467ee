-- clock_read.sql: the time by the store's clock: the database's (or what a test tells), never before the last change.
-- Race: none, a sequence is read as it is. Index: none. Order: none.
SELECT greatest(coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), last_value) FROM dibs_clock
