-- lane_due.sql: lanes of one priority that may have due jobs; those with the earliest bound first, read one by one.
-- Race: none, the caller holds the write lock. Index: dibs_lane_due. Order: bound.
SELECT id, queue, task, priority, next_due FROM dibs_lane INDEXED BY dibs_lane_due
WHERE next_due < 4611686018427387904 AND priority = ?1 AND next_due <= ?2
  AND (?3 IS NULL OR task IN (SELECT value FROM json_each(?3)))
ORDER BY next_due
