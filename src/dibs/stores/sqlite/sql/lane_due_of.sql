-- lane_due_of.sql: lanes of the named queues that may have due jobs.
-- Race: none, the caller holds the write lock. Index: dibs_lane_name. Order: none; the claim sorts the few there are.
SELECT id, queue, task, priority, next_due FROM dibs_lane INDEXED BY dibs_lane_name
WHERE queue IN (SELECT value FROM json_each(?1)) AND next_due <= ?2
  AND (?3 IS NULL OR task IN (SELECT value FROM json_each(?3)))
