-- lane_add.sql: a lane for the first job of its kind.
-- Race: none, the caller holds the write lock. Index: primary key. Order: none.
INSERT INTO dibs_lane (queue, task, priority, next_due) VALUES (?, ?, ?, ?) RETURNING id
