-- claim_log.sql: one event for each job that was just leased.
-- Race: none, the rows are locked, and ours. Index: primary key. Order: numbered by the job itself.
INSERT INTO dibs_event (job, n, event, was, became, worker_id, fence, attempts, due, lease_expires, at)
SELECT seq, events, 'claimed', 'pending', 'claimed', worker_id, fence, attempts, due, lease_expires, claimed
FROM dibs_job WHERE seq IN %s
