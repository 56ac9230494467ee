-- count_lanes.sql: all lanes.
-- Race: none, a snapshot. Index: dibs_lane_name, covering. Order: queue.
SELECT id, queue FROM dibs_lane INDEXED BY dibs_lane_name ORDER BY queue
