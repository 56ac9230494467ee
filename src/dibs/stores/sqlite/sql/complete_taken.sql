-- complete_taken.sql: which jobs has complete_take just changed? Those whose last event has not been logged yet.
-- Race: none, in its transaction. Index: primary keys. Order: none.
SELECT seq FROM dibs_job AS job NOT INDEXED
WHERE seq IN (SELECT value FROM json_each(?)) AND status = 'completed'
  AND NOT EXISTS (SELECT 1 FROM dibs_event WHERE dibs_event.id = (job.seq << 24 | job.events))
