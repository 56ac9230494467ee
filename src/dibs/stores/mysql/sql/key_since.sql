-- key_since.sql: has a job had one of these unique keys, and ended, that came since they were looked up?
-- Race: a job that comes and ends while another with its key is between the look-up and the insert; by their logs they would have had
--   it at once (test_a_key_is_had_by_one_after_the_other). Asked after the insert: then no one else can have it any more.
-- Index: primary key, from the youngest job at the look-up on, and the few before it that were being committed then. Order: none.
SELECT 1 FROM dibs_job AS job FORCE INDEX (PRIMARY)
WHERE job.seq > %s AND job.unique_key IN %s AND job.unfinished IS NULL AND job.updated > %s LIMIT 1
