-- count_lanes.sql: the lanes of one queue or of all.
-- Race: none, a snapshot. Index: dibs_lane_name. Order: none.
SELECT lane.id, lane.queue FROM dibs_lane AS lane WHERE %s OR lane.queue = %s
