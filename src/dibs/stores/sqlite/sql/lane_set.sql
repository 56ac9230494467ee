-- lane_set.sql: a claim has seen what is left in a lane.
-- Race: a job that comes in later lowers it again; both hold the write lock. Index: primary key. Order: none.
UPDATE dibs_lane SET next_due = ?2 WHERE id = ?1
