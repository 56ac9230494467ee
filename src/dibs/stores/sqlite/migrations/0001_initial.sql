-- 0001_initial.sql · breaking: no · locks: the file, for the moment that empty tables take
-- Every name begins with dibs_, for the file may be the user's own. Times are microseconds of the store's clock.

-- A lane is where jobs of one queue, task and priority wait. A claim looks at lanes first, so it never meets the jobs of
-- others. next_due is never later than the first due time in the lane; 4611686018427387904 (NEVER) if nothing waits there.
CREATE TABLE dibs_lane (
  id       INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice, so what a process remembers about one stays true
  queue    TEXT    NOT NULL,
  task     TEXT    NOT NULL,
  priority INTEGER NOT NULL,
  next_due INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX dibs_lane_name ON dibs_lane (queue, task, priority);
CREATE INDEX dibs_lane_due ON dibs_lane (priority DESC, next_due, queue, task) WHERE next_due < 4611686018427387904;

-- What changes in a job's life, and is therefore kept narrow: SQLite rewrites a whole row to change a column of it.
CREATE TABLE dibs_job (
  seq             INTEGER PRIMARY KEY AUTOINCREMENT, -- enqueue order; a reused one would inherit another job's log
  id              TEXT    NOT NULL UNIQUE,
  lane            INTEGER NOT NULL,
  status          TEXT    NOT NULL,
  due             INTEGER NOT NULL,
  attempts        INTEGER NOT NULL,
  max_attempts    INTEGER NOT NULL,
  fence           INTEGER NOT NULL,
  events          INTEGER NOT NULL, -- how many are in its log
  created         INTEGER NOT NULL,
  updated         INTEGER NOT NULL,
  lease           INTEGER NOT NULL, -- what a claim gets that asks for no other
  kept            INTEGER NOT NULL, -- how long it stays once it has been completed
  worker_id       TEXT,
  token           TEXT,
  claimed         INTEGER,
  lease_expires   INTEGER,
  claim_lease     INTEGER,
  settled_as      TEXT,
  completed       INTEGER,
  expires         INTEGER,          -- when it may be pruned; null until it has ended, and so also the mark of that
  progress        REAL,
  progress_note   TEXT    NOT NULL,
  idempotency_key TEXT,
  unique_key      TEXT,
  batch_id        TEXT,
  error           BLOB,
  result          BLOB,
  room            BLOB              -- zeros that a claim and its end make use of: a row that kept its size is written over
                                    -- in its place, one that grew would split the full pages that it and its neighbours fill
) STRICT;

-- No IN (...) in these conditions: SQLite would build the list anew for every row that changes.
CREATE INDEX dibs_job_pending ON dibs_job (lane, due, seq) WHERE status = 'pending';
CREATE INDEX dibs_job_leases ON dibs_job (lease_expires, lane) WHERE status = 'claimed';
CREATE INDEX dibs_job_finished ON dibs_job (lane, status, expires) WHERE expires IS NOT NULL;
CREATE INDEX dibs_job_failed ON dibs_job (seq) WHERE status = 'failed';
CREATE INDEX dibs_job_batch ON dibs_job (batch_id, seq) WHERE batch_id IS NOT NULL;
CREATE UNIQUE INDEX dibs_job_idempotency_key ON dibs_job (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE UNIQUE INDEX dibs_job_unique_key ON dibs_job (unique_key)
  WHERE unique_key IS NOT NULL AND expires IS NULL;

-- What never changes and may be large. Terms first: reading them then does not touch the pages that params flow over to.
CREATE TABLE dibs_payload (
  seq    INTEGER PRIMARY KEY,
  due    INTEGER NOT NULL, -- when it was first due, as its first event tells
  terms  BLOB    NOT NULL,
  params BLOB    NOT NULL
) STRICT;

-- A job as the domain knows it, in the order that rows.py reads it.
CREATE VIEW dibs_whole AS
  SELECT job.seq, job.lane, job.id, payload.params, job.status, job.due, job.attempts, job.max_attempts, job.fence,
         job.created, job.updated, payload.terms, job.worker_id, job.claimed, job.lease_expires, job.claim_lease,
         job.token, job.settled_as, job.idempotency_key, job.unique_key, job.batch_id, job.result, job.error,
         job.progress, job.progress_note, job.completed, job.events, job.expires, payload.due AS first_due
  FROM dibs_job AS job CROSS JOIN dibs_payload AS payload ON payload.seq = job.seq;

-- A job's log from its second event on. The first, enqueued, is told by the job itself: it would fill these pages to the
-- brim beforehand, and every later event would split one.
CREATE TABLE dibs_event (
  id            INTEGER PRIMARY KEY, -- job * 16777216 + n: one number, so that the pages above the rows stay few
  job           INTEGER GENERATED ALWAYS AS (id >> 24) VIRTUAL,
  n             INTEGER GENERATED ALWAYS AS (id & 16777215) VIRTUAL,
  event         TEXT    NOT NULL,
  before        TEXT,
  after         TEXT,
  worker_id     TEXT,
  actor         TEXT,
  fence         INTEGER NOT NULL,
  attempts      INTEGER NOT NULL,
  due           INTEGER NOT NULL,
  lease_expires INTEGER,
  at            INTEGER NOT NULL,
  note          TEXT    NOT NULL
) STRICT;

-- What is left of a job that was pruned, for a day: its last event.
CREATE TABLE dibs_tombstone (
  id       TEXT    PRIMARY KEY,
  n        INTEGER NOT NULL,
  before   TEXT,
  actor    TEXT,
  fence    INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  due      INTEGER NOT NULL,
  at       INTEGER NOT NULL,
  note     TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX dibs_tombstone_at ON dibs_tombstone (at);

-- When something was last changed: one row. The store's clock is never before it.
CREATE TABLE dibs_clock (
  id   INTEGER PRIMARY KEY CHECK (id = 1),
  high INTEGER NOT NULL
) STRICT;

INSERT INTO dibs_clock VALUES (1, 0);

CREATE TABLE dibs_tag (
  tag TEXT    NOT NULL,
  job INTEGER NOT NULL,
  PRIMARY KEY (tag, job)
) STRICT, WITHOUT ROWID;

CREATE TABLE dibs_document (
  name    TEXT    PRIMARY KEY,
  version INTEGER NOT NULL,
  value   BLOB    NOT NULL,
  updated INTEGER NOT NULL,
  expires INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX dibs_document_expires ON dibs_document (expires) WHERE expires IS NOT NULL;
