-- lane_waiting.sql: every lane in which anything waits, for those who wait for a job.
-- Race: a hint only. Index: dibs_lane_due, covering, lanes with pending jobs alone. Order: none.
SELECT id, queue, task, next_due FROM dibs_lane INDEXED BY dibs_lane_due WHERE next_due < 4611686018427387904
