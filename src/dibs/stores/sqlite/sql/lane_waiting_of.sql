-- lane_waiting_of.sql: lanes of the named queues in which anything waits, for those who wait for a job.
-- Race: a hint only. Index: dibs_lane_name. Order: none.
SELECT id, queue, task, next_due FROM dibs_lane INDEXED BY dibs_lane_name
WHERE queue IN (SELECT value FROM json_each(?)) AND next_due < 4611686018427387904
