-- lane_read.sql: what a lane's number stands for; it never changes.
-- Race: none. Index: primary key. Order: none.
SELECT id, queue, task, priority FROM dibs_lane WHERE id = ?
