-- claim_find.sql: one job by its id, if it can be claimed.
-- Race: none, the caller holds the write lock. Index: the job's unique id. Order: none.
SELECT seq, lane FROM dibs_job WHERE id = ?1 AND status = 'pending' AND due <= ?2 AND max_attempts - attempts >= ?3
