-- extend_find.sql: claims to be extended; of the payload only what is small.
-- Race: a claim that was just taken over; compared under this write lock. Index: the job's unique id. Order: none.
SELECT job.seq, job.id, job.status, job.fence, job.token, job.lease_expires, job.claim_lease, job.progress, job.progress_note
FROM dibs_job AS job WHERE job.id IN (SELECT value FROM json_each(?))
