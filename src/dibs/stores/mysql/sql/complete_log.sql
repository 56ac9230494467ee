-- complete_log.sql: one event for each job that has just ended well.
-- Race: none, the rows are locked, and ours. Index: primary key. Order: numbered by the job itself.
INSERT INTO dibs_event (job, n, event, was, became, worker_id, fence, attempts, due, lease_expires, at)
SELECT seq, events, 'completed', 'claimed', 'completed', worker_id, fence, attempts, due, lease_expires, updated
FROM dibs_job WHERE seq IN %s
