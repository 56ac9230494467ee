-- 0001_initial.sql · breaking: no · locks: none that anyone could wait for, as the tables are new
-- Every name begins with dibs_, in the first schema of the search path. Times are microseconds of the store's clock.
-- Names and keys are compared by bytes: COLLATE "C".

-- When something was last changed; the store's clock is never before it. A sequence, because it is not part of a
-- transaction: all see it at once, and no one waits for another's commit to tell the time.
CREATE SEQUENCE dibs_clock MINVALUE 0 START WITH 0;

-- A lane is where jobs of one queue, task and priority wait. A claim looks at lanes first, so it never meets the jobs of
-- others. A lane is made in a transaction of its own, and stays while any job refers to it.
CREATE TABLE dibs_lane (
  id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  queue    text COLLATE "C" NOT NULL,
  task     text COLLATE "C" NOT NULL,
  priority integer NOT NULL
);

CREATE UNIQUE INDEX dibs_lane_name ON dibs_lane (queue, task, priority);

CREATE TABLE dibs_job (
  seq             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- enqueue order
  lane            bigint NOT NULL,
  due             bigint NOT NULL,
  first_due       bigint NOT NULL, -- as its first event tells, which is not stored
  created         bigint NOT NULL,
  updated         bigint NOT NULL,
  lease           bigint NOT NULL, -- what a claim gets that asks for no other
  kept            bigint NOT NULL, -- how long it stays once it has been completed
  fence           bigint NOT NULL DEFAULT 0,
  claimed         bigint,
  lease_expires   bigint,
  claim_lease     bigint,
  completed       bigint,
  expires         bigint,          -- when it may be pruned; null until it has ended, and so also the mark of that
  progress        double precision,
  attempts        integer NOT NULL DEFAULT 0,
  max_attempts    integer NOT NULL,
  events          integer NOT NULL DEFAULT 1, -- how many are in its log
  untold          smallint NOT NULL DEFAULT 0, -- how many of them are not in dibs_event yet: see dibs_untold
  status          text COLLATE "C" NOT NULL DEFAULT 'pending',
  id              text COLLATE "C" NOT NULL,
  worker_id       text COLLATE "C",
  token           text COLLATE "C",
  settled_as      text COLLATE "C",
  progress_note   text NOT NULL DEFAULT '',
  idempotency_key text COLLATE "C",
  unique_key      text COLLATE "C",
  batch_id        text COLLATE "C",
  terms           bytea NOT NULL,
  params          bytea NOT NULL,
  error           bytea,
  result          bytea
) WITH (
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05,
  autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1
);

CREATE INDEX dibs_job_pending ON dibs_job (lane, due, seq) WHERE status = 'pending';
CREATE INDEX dibs_job_leases ON dibs_job (lease_expires, lane) WHERE status = 'claimed';
CREATE INDEX dibs_job_finished ON dibs_job (lane, status, expires) WHERE expires IS NOT NULL;
CREATE INDEX dibs_job_failed ON dibs_job (seq) WHERE status = 'failed';
CREATE INDEX dibs_job_batch ON dibs_job (batch_id, seq) WHERE batch_id IS NOT NULL;
CREATE UNIQUE INDEX dibs_job_idempotency_key ON dibs_job (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE UNIQUE INDEX dibs_job_unique_key ON dibs_job (unique_key) WHERE unique_key IS NOT NULL AND expires IS NULL;

-- Which job has an id. Apart from the job, whose row is written anew, with all its index entries, each time something
-- happens to it; an id stays what it is.
CREATE TABLE dibs_name (
  id  text COLLATE "C" PRIMARY KEY,
  job bigint NOT NULL
);

-- A job as the domain knows it, in the order that rows.py reads it.
CREATE VIEW dibs_whole AS
  SELECT job.seq, job.lane, job.id, lane.queue, lane.task, job.params, lane.priority, job.status, job.due, job.attempts,
         job.max_attempts, job.fence, job.created, job.updated, job.terms, job.worker_id, job.claimed, job.lease_expires,
         job.claim_lease, job.token, job.settled_as, job.idempotency_key, job.unique_key, job.batch_id, job.result,
         job.error, job.progress, job.progress_note, job.completed, job.events, job.expires, job.first_due
  FROM dibs_job AS job JOIN dibs_lane AS lane ON lane.id = job.lane;

-- A job's log from its second event on, but for those that the job itself tells: its first, enqueued; and while nothing else
-- has happened since, that it was claimed, or claimed and then completed. For most jobs that is all there is.
CREATE TABLE dibs_event (
  job           bigint NOT NULL,
  at            bigint NOT NULL,
  due           bigint NOT NULL,
  fence         bigint NOT NULL,
  lease_expires bigint,
  n             integer NOT NULL,
  attempts      integer NOT NULL,
  event         text COLLATE "C" NOT NULL,
  before        text COLLATE "C",
  after         text COLLATE "C",
  worker_id     text COLLATE "C",
  actor         text,
  note          text NOT NULL DEFAULT '',
  PRIMARY KEY (job, n)
);

-- The last events of jobs that are told by the job itself: 1, its claim; 2, its claim and its completion.
CREATE VIEW dibs_untold AS
  SELECT seq AS job, events - untold + 1 AS n, 'claimed' COLLATE "C" AS event, 'pending' COLLATE "C" AS before,
         'claimed' COLLATE "C" AS after, worker_id, NULL AS actor, fence, attempts - untold + 1 AS attempts, due,
         claimed + claim_lease AS lease_expires, claimed AS at, '' AS note
  FROM dibs_job WHERE untold > 0
  UNION ALL
  SELECT seq, events, 'completed', 'claimed', 'completed', worker_id, NULL, fence, attempts, due, lease_expires,
         completed, ''
  FROM dibs_job WHERE untold > 1;

-- What is left of a job that was pruned, for a day: its last event.
CREATE TABLE dibs_tombstone (
  id       text COLLATE "C" PRIMARY KEY,
  n        integer NOT NULL,
  before   text COLLATE "C",
  actor    text,
  fence    bigint NOT NULL,
  attempts integer NOT NULL,
  due      bigint NOT NULL,
  at       bigint NOT NULL,
  note     text NOT NULL
);

CREATE INDEX dibs_tombstone_at ON dibs_tombstone (at);

CREATE TABLE dibs_tag (
  tag text COLLATE "C" NOT NULL,
  job bigint NOT NULL,
  PRIMARY KEY (tag, job)
);

CREATE TABLE dibs_document (
  name    text COLLATE "C" PRIMARY KEY,
  version bigint NOT NULL,
  value   bytea NOT NULL,
  updated bigint NOT NULL,
  expires bigint
);

CREATE INDEX dibs_document_expires ON dibs_document (expires) WHERE expires IS NOT NULL;
