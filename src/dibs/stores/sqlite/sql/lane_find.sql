-- lane_find.sql: the lane of a queue, task and priority.
-- Race: none, the caller holds the write lock. Index: dibs_lane_name. Order: none.
SELECT id, next_due FROM dibs_lane INDEXED BY dibs_lane_name WHERE queue = ? AND task = ? AND priority = ?
