-- clock_write.sql: the time that something is being changed at, for all who share the file.
-- Race: none, the caller holds the write lock, and has read what was there. Index: primary key. Order: none.
UPDATE dibs_clock SET high = ? WHERE id = 1
