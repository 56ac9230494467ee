-- write_job.sql: what has become of jobs.
-- Race: none, the rows are locked. Those that end are written before those that begin again, so that a key is free by then.
-- Log: what the rows told themselves until now is put into the log first.
-- Index: primary keys, then ctid (ADR 8). Order: none.
WITH told AS (
  INSERT INTO dibs_event (job, n, event, before, after, worker_id, actor, fence, attempts, due, lease_expires, at, note)
  SELECT job, n, event, before, after, worker_id, actor, fence, attempts, due, lease_expires, at, note
  FROM dibs_untold WHERE job = ANY ($1::bigint[])
)
UPDATE dibs_job AS job SET
  untold = 0,
  status = new.status, due = new.due, attempts = new.attempts, events = new.events, updated = new.updated,
  settled_as = new.settled_as, completed = new.completed, expires = new.expires, progress = new.progress,
  progress_note = new.progress_note, error = new.error, result = new.result
FROM unnest(
  $1::bigint[], $2::text[], $3::bigint[], $4::integer[], $5::integer[], $6::bigint[], $7::text[], $8::bigint[], $9::bigint[],
  $10::double precision[], $11::text[], $12::bytea[], $13::bytea[]
) AS new (
  seq, status, due, attempts, events, updated, settled_as, completed, expires, progress, progress_note, error, result
) CROSS JOIN LATERAL (SELECT old.ctid FROM dibs_job AS old WHERE old.seq = new.seq OFFSET 0) AS old
WHERE job.ctid = old.ctid
