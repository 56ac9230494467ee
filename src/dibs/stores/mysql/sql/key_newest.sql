-- key_newest.sql: the youngest job there is.
-- Race: what comes later is met by key_since. Index: primary key, its end. Order: none.
SELECT coalesce(max(job.seq), 0) FROM dibs_job AS job
