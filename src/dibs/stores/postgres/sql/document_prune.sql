-- document_prune.sql: documents whose time is over go, a few at a time.
-- Race: one written anew has another time, which is compared under its lock. Index: dibs_document_expires. Order: none.
WITH gone AS (
  DELETE FROM dibs_document WHERE name = ANY (ARRAY(
    SELECT name FROM dibs_document WHERE expires IS NOT NULL AND expires <= $1 ORDER BY expires LIMIT $2 FOR UPDATE SKIP LOCKED))
  RETURNING 1
)
SELECT count(*) FROM gone
