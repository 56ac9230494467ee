-- claim_read.sql: what the claim does not know of the jobs that it has just leased.
-- Race: none, in the transaction of claim_take. Index: primary keys. Order: none; the claim keeps its own.
SELECT job.seq, job.lane, job.id, payload.params, job.due, job.attempts, job.max_attempts, job.fence, job.created,
       payload.terms, job.claim_lease, job.idempotency_key, job.unique_key, job.batch_id, job.error, job.progress,
       job.progress_note, job.events
FROM json_each(?) AS picked
CROSS JOIN dibs_job AS job ON job.seq = picked.value CROSS JOIN dibs_payload AS payload ON payload.seq = job.seq
