-- job_by_id.sql: whole jobs by id.
-- Race: none, a snapshot. Index: dibs_name_pkey, primary keys (LATERAL: ADR 8). Order: none.
SELECT whole.* FROM dibs_name AS name CROSS JOIN LATERAL (
  SELECT * FROM dibs_whole AS whole WHERE whole.seq = name.job OFFSET 0
) AS whole
WHERE name.id = ANY ($1::text[])
