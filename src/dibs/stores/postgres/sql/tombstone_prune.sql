-- tombstone_prune.sql: what was pruned long ago is forgotten, a little at a time.
-- Race: two who prune -> SKIP LOCKED. Index: dibs_tombstone_at. Order: oldest first.
WITH gone AS (
  DELETE FROM dibs_tombstone WHERE id = ANY (ARRAY(
    SELECT id FROM dibs_tombstone WHERE at <= $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED))
  RETURNING 1
)
SELECT count(*) FROM gone
