-- write_job.sql: what has become of a job.
-- Race: a stale holder; judged by the domain on the row as it is under this write lock. Index: primary key. Order: none.
UPDATE dibs_job NOT INDEXED SET
  status = ?, due = ?, attempts = ?, events = ?, updated = ?, settled_as = ?, completed = ?, expires = ?,
  progress = ?, progress_note = ?, error = ?, result = ?
WHERE seq = ?
