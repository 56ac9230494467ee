-- tombstone_add.sql: pruned jobs' last events; an id that was used again leaves its last one.
-- Race: one id pruned twice at once cannot be, for its row was locked. Index: primary key. Order: by id, so that two who write
--   the same do not wait for each other in a circle.
REPLACE INTO dibs_tombstone (id, n, was, actor, fence, attempts, due, at, note) VALUES %s
