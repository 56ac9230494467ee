-- insert_place.sql: the last place in the enqueue order that was ever given away.
-- Race: none, the caller holds the write lock. Index: none, the table has one row for each counter. Order: none.
SELECT seq FROM sqlite_sequence WHERE name = 'dibs_job'
