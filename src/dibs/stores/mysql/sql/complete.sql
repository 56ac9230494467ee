-- complete.sql: end well the jobs that this transaction has just locked.
-- Race: none, the rows are locked; updated comes last, as in claim_take. Index: primary key. Order: none.
UPDATE dibs_job SET
  status = 'completed', attempts = attempts + 1, events = events + 1, settled_as = 'completed', error = NULL, result = NULL,
  completed = greatest(%s, updated), expires = greatest(%s, updated) + kept, updated = greatest(%s, updated)
WHERE seq IN %s
