-- lane_add.sql: lanes for the first jobs of their kind.
-- Race: two enqueues, one new lane: the second finds it there. Always in a transaction of its own, so that no one waits for a user's.
-- Index: dibs_lane_name. Order: by name, so that two who add the same do not wait for each other in a circle.
INSERT INTO dibs_lane (queue, task, priority) VALUES %s
ON DUPLICATE KEY UPDATE priority = dibs_lane.priority
