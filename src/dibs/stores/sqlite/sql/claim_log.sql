-- claim_log.sql: one event for each job that was just leased.
-- Race: none, in the transaction of claim_take. Index: primary keys. Order: none.
INSERT INTO dibs_event (id, event, before, after, worker_id, actor, fence, attempts, due, lease_expires, at, note)
SELECT seq << 24 | events, 'claimed', 'pending', 'claimed', worker_id, NULL, fence, attempts, due, lease_expires, claimed, ''
FROM dibs_job NOT INDEXED WHERE seq IN (SELECT value FROM json_each(?))
