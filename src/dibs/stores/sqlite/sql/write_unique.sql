-- write_unique.sql: does an unfinished job have this unique key?
-- Race: a redrive and an enqueue with one key: both hold the write lock in turn. Index: dibs_job_unique_key. Order: none.
SELECT 1 FROM dibs_job WHERE unique_key = ? AND expires IS NULL
