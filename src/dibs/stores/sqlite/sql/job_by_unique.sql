-- job_by_unique.sql: the whole unfinished job that has a unique key.
-- Race: two enqueues, one key: both hold the write lock in turn. Index: dibs_job_unique_key. Order: none.
SELECT * FROM dibs_whole WHERE unique_key = ? AND expires IS NULL
