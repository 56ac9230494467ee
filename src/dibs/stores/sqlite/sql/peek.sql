-- peek.sql: when one job is due, if it waits.
-- Race: a hint only. Index: the job's unique id. Order: none.
SELECT lane, due FROM dibs_job WHERE id = ?1 AND status = 'pending' AND max_attempts - attempts >= ?2
