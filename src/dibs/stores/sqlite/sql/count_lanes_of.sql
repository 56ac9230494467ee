-- count_lanes_of.sql: the lanes of one queue.
-- Race: none, a snapshot. Index: dibs_lane_name, covering. Order: none.
SELECT id, queue FROM dibs_lane INDEXED BY dibs_lane_name WHERE queue = ?
