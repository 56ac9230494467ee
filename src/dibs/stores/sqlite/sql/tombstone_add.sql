-- tombstone_add.sql: a pruned job's last event; an id that was used again leaves its last one.
-- Race: none, in the transaction of remove_job. Index: primary key. Order: none.
INSERT OR REPLACE INTO dibs_tombstone (id, n, before, actor, fence, attempts, due, at, note)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
