-- write_log.sql: one event.
-- Race: none, in the transaction of the change that it tells of. Index: primary key. Order: numbered by the job itself.
INSERT INTO dibs_event VALUES (?1 << 24 | ?2, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
