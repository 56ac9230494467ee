-- complete_take.sql: end well those of these jobs that are held under this claim.
-- Race: taken over, cancelled or settled meanwhile; then fence, token or status differs, the row is left as it is, and
--   writing.py judges it like any other. So it does with a job that is not kept, or whose end sets a unique key free.
--   Index: primary key. Order: none.
UPDATE dibs_job NOT INDEXED SET
  status = 'completed', attempts = attempts + 1, events = events + 1, updated = ?2, completed = ?2, expires = ?2 + kept,
  settled_as = 'completed', error = NULL, result = ?3, room = NULL
WHERE seq IN (SELECT value FROM json_each(?1))
  AND status = 'claimed' AND fence = ?5 AND token = ?4 AND kept > 0 AND unique_key IS NULL
