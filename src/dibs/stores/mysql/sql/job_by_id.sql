-- job_by_id.sql: whole jobs by id.
-- Race: none, a snapshot. Index: dibs_job_id. Order: none.
SELECT whole.* FROM dibs_whole AS whole WHERE whole.id IN %s
