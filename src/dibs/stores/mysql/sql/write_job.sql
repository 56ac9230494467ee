-- write_job.sql: what has become of a job.
-- Race: none, the row is locked. Those that end are written before those that begin again, so that a key is free by then.
-- Index: primary key. Order: none.
UPDATE dibs_job SET
  status = %s, due = %s, attempts = %s, events = %s, updated = %s, settled_as = %s, completed = %s, expires = %s,
  progress = %s, progress_note = %s, error = %s, result = %s
WHERE seq = %s
