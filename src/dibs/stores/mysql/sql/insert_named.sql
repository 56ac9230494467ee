-- insert_named.sql: whole jobs that have one of these ids or idempotency keys, or are unfinished with one of these unique keys.
-- Race: one that comes a moment later is met by the unique indexes. Index: dibs_job_id, dibs_job_idempotency_key,
--   dibs_job_unique_key, one for each part. Order: none.
SELECT 'id', whole.* FROM dibs_whole AS whole WHERE whole.id IN %s
UNION ALL
SELECT 'key', whole.* FROM dibs_whole AS whole WHERE whole.idempotency_key IN %s
UNION ALL
SELECT 'unique', whole.* FROM dibs_whole AS whole WHERE whole.expires IS NULL AND whole.unique_key IN %s
