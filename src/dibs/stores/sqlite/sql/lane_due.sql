-- lane_due.sql: lanes that may have due jobs, read one by one, for a claim stops as soon as it has enough.
-- Race: none, the caller holds the write lock; what it writes to lanes meanwhile lies behind this walk. Index: dibs_lane_due,
--   covering; costs a step for each lane of a better priority in which nothing is due yet. Order: best priority, then bound.
SELECT id, queue, task, priority, next_due FROM dibs_lane INDEXED BY dibs_lane_due
WHERE next_due < 4611686018427387904 AND next_due <= ?1
  AND (?2 IS NULL OR task IN (SELECT value FROM json_each(?2)))
ORDER BY priority DESC, next_due
