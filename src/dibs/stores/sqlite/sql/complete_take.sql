-- complete_take.sql: end well the jobs that one request claimed and that nothing has touched since.
-- Race: taken over, extended or cancelled meanwhile; then the token, the time or the status differs, the row is left as it
--   is, and writing.py judges it like any other. Index: primary key. Order: none.
UPDATE dibs_job NOT INDEXED SET
  status = 'completed', attempts = attempts + 1, events = events + 1, updated = ?2, completed = ?2, expires = ?3,
  settled_as = 'completed', error = NULL, result = ?4, room = NULL
WHERE seq IN (SELECT value FROM json_each(?1))
  AND status = 'claimed' AND token = ?5 AND updated = ?6 AND progress IS NULL
