-- examine_orphan.sql: what would have been looked after, if anyone were there to do it?
-- Race: none, a look. Index: dibs_job_leases, dibs_job_finished. Order: none.
SELECT
  (SELECT count(*) FROM (
    SELECT 1 FROM dibs_job INDEXED BY dibs_job_leases WHERE status = 'claimed' AND lease_expires < ?1 - ?2 LIMIT 10000
  )),
  (SELECT count(*) FROM (
    SELECT 1 FROM dibs_job INDEXED BY dibs_job_finished WHERE expires IS NOT NULL AND expires < ?1 - ?3 LIMIT 10000
  ))
