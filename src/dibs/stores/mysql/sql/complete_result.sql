-- complete_result.sql: what a job was completed with.
-- Race: none, the row is locked. Index: primary key. Order: none.
UPDATE dibs_job SET result = %s WHERE seq = %s
