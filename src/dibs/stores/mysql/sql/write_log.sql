-- write_log.sql: one event for each change.
-- Race: none, in the transaction of the changes that they tell of. Index: primary key. Order: numbered by the job itself.
INSERT INTO dibs_event (job, n, event, was, became, worker_id, actor, fence, attempts, due, lease_expires, at, note)
VALUES %s
