-- lane_find.sql: the lanes of some queues, tasks and priorities.
-- Race: one may be removed a moment later; insert looks again. Index: dibs_lane_name. Order: none.
SELECT lane.id, lane.queue, lane.task, lane.priority
FROM JSON_TABLE(%s, '$[*]' COLUMNS (
  queue varchar(512) CHARACTER SET utf8mb4 PATH '$[0]', task varchar(512) CHARACTER SET utf8mb4 PATH '$[1]',
  priority int PATH '$[2]')) AS given
STRAIGHT_JOIN dibs_lane AS lane FORCE INDEX (dibs_lane_name)
  ON lane.queue = given.queue AND lane.task = given.task AND lane.priority = given.priority
