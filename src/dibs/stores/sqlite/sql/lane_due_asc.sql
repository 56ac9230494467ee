-- lane_due_asc.sql: as lane_due, for a claim that begins with the lowest priority.
-- Race: as lane_due. Index: dibs_lane_due, covering, backwards. Order: lowest priority, then bound, the latest first: so
--   the index has it, and the claim turns it round.
SELECT id, queue, task, priority, next_due FROM dibs_lane INDEXED BY dibs_lane_due
WHERE next_due < 4611686018427387904 AND next_due <= ?1
  AND (?2 IS NULL OR task IN (SELECT value FROM json_each(?2)))
ORDER BY priority, next_due DESC
