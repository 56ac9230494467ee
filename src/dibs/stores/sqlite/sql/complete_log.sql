-- complete_log.sql: one event for each job that complete_take has ended.
-- Race: none, in its transaction. Index: primary keys. Order: none.
INSERT INTO dibs_event (id, event, before, after, worker_id, actor, fence, attempts, due, lease_expires, at, note)
SELECT seq << 24 | events, 'completed', 'claimed', 'completed', worker_id, NULL, fence, attempts, due, lease_expires, updated, ''
FROM dibs_job NOT INDEXED WHERE seq IN (SELECT value FROM json_each(?))
