-- claim_pick_places.sql: the due jobs of some lanes at the places that were drawn. Costs what it counts.
-- Race: none, the caller holds the write lock, and counted in the same transaction. Index: dibs_job_pending.
-- Order: places count from zero in the index's own order.
SELECT seq, place FROM (
  SELECT seq, row_number() OVER (ORDER BY lane, due, seq) - 1 AS place FROM dibs_job INDEXED BY dibs_job_pending
  WHERE status = 'pending' AND lane IN (SELECT value FROM json_each(?1)) AND due <= ?2
    AND max_attempts - attempts >= ?3
) WHERE place IN (SELECT value FROM json_each(?4))
