-- lane_find.sql: the lanes of some queues, tasks and priorities.
-- Race: one may be removed a moment later; insert looks again. Index: dibs_lane_name. Order: none.
SELECT lane.id, lane.queue, lane.task, lane.priority
FROM unnest($1::text[], $2::text[], $3::integer[]) AS asked (queue, task, priority)
JOIN dibs_lane AS lane ON lane.queue = asked.queue AND lane.task = asked.task AND lane.priority = asked.priority
