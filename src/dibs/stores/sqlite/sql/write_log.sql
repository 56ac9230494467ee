-- write_log.sql: one event.
-- Race: none, in the transaction of the change that it tells of. Index: primary key. Order: numbered by the job itself.
INSERT INTO dibs_event (id, event, before, after, worker_id, actor, fence, attempts, due, lease_expires, at, note)
VALUES (?1 << 24 | ?2, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
