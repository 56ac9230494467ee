-- extend_progress.sql: how far the work of a claim has come.
-- Race: none, the row is locked. Index: primary key. Order: none.
UPDATE dibs_job SET progress = %s, progress_note = %s WHERE seq = %s
