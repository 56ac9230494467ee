-- insert_named.sql: whole jobs that have one of these ids or idempotency keys, or are unfinished with one of these unique keys.
-- Race: one that comes a moment later is met by the unique indexes. Index: dibs_name_pkey, dibs_job_idempotency_key,
--   dibs_job_unique_key, one for each part (LATERAL: ADR 8). Order: none.
SELECT 'id' AS named_by, whole.* FROM dibs_name AS name CROSS JOIN LATERAL (
  SELECT * FROM dibs_whole AS whole WHERE whole.seq = name.job OFFSET 0
) AS whole
WHERE name.id = ANY ($1::text[])
UNION ALL
SELECT 'key', whole.* FROM dibs_whole AS whole
WHERE whole.idempotency_key IS NOT NULL AND whole.idempotency_key = ANY ($2::text[])
UNION ALL
SELECT 'unique', whole.* FROM dibs_whole AS whole
WHERE whole.unique_key IS NOT NULL AND whole.expires IS NULL AND whole.unique_key = ANY ($3::text[])
