-- write_job.sql: what has become of a job.
-- Race: a stale holder; judged by the domain on the row as it is under this write lock. Index: primary key. Order: none.
UPDATE dibs_job NOT INDEXED SET
  status = ?1, due = ?2, attempts = ?3, events = ?4, updated = ?5, settled_as = ?6, completed = ?7, expires = ?8,
  progress = ?9, progress_note = ?10, error = ?11, result = ?12, room = iif(?8 IS NULL, room, NULL)
WHERE seq = ?13
