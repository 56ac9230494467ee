-- claim_count.sql: how many due jobs some lanes have, to draw from at random. Costs what it counts.
-- Race: none, the caller holds the write lock. Index: dibs_job_pending. Order: none.
SELECT count(*) FROM dibs_job INDEXED BY dibs_job_pending WHERE status = 'pending' AND lane IN (SELECT value FROM json_each(?1)) AND due <= ?2
  AND max_attempts - attempts >= ?3
