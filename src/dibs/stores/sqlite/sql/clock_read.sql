-- clock_read.sql: what the store's clock may not fall behind: the mark in the file, and when the newest job was made.
-- Race: read inside the transaction that uses it. Index: primary keys; of the jobs their last entry. Order: the jobs'
--   enqueue order, backwards.
SELECT high, (SELECT created FROM dibs_job ORDER BY seq DESC LIMIT 1) FROM dibs_clock
