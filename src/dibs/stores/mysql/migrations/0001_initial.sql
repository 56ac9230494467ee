-- 0001_initial.sql · breaking: no · locks: none that anyone could wait for, as the tables are new
-- Every name begins with dibs_. Times are microseconds of the store's clock. Names, keys and all free text are bytes: compared
-- without case, accents or padding in between, whatever the character set of the connection.
-- Each statement is safe to repeat: DDL commits by itself, and a migration may be cut in the middle.

-- When something was last changed: the greatest of these, one for each of some connections, so that commits do not queue
-- up for one row. The store's clock is never before it.
CREATE TABLE IF NOT EXISTS dibs_clock (
  slot tinyint unsigned NOT NULL PRIMARY KEY,
  at   bigint NOT NULL
) ENGINE = InnoDB;

INSERT IGNORE INTO dibs_clock (slot, at) VALUES
  (0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0), (8, 0), (9, 0), (10, 0), (11, 0), (12, 0), (13, 0), (14, 0),
  (15, 0), (16, 0), (17, 0), (18, 0), (19, 0), (20, 0), (21, 0), (22, 0), (23, 0), (24, 0), (25, 0), (26, 0), (27, 0), (28, 0),
  (29, 0), (30, 0), (31, 0), (32, 0), (33, 0), (34, 0), (35, 0), (36, 0), (37, 0), (38, 0), (39, 0), (40, 0), (41, 0), (42, 0),
  (43, 0), (44, 0), (45, 0), (46, 0), (47, 0), (48, 0), (49, 0), (50, 0), (51, 0), (52, 0), (53, 0), (54, 0), (55, 0), (56, 0),
  (57, 0), (58, 0), (59, 0), (60, 0), (61, 0), (62, 0), (63, 0);

-- A lane is where jobs of one queue, task and priority wait. A claim looks at lanes first, so it never meets the jobs of
-- others. A lane is made in a transaction of its own, and stays while any job refers to it.
CREATE TABLE IF NOT EXISTS dibs_lane (
  id       bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
  queue    varbinary(512) NOT NULL,
  task     varbinary(512) NOT NULL,
  priority int NOT NULL,
  UNIQUE KEY dibs_lane_name (queue, task, priority)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- at: when something is to happen with the job next: it is due, its lease ends, it may be pruned. The agenda is in that order,
-- so what is pending is together, lane by lane, and nothing else is in a claim's way.
-- unfinished: null once the job has ended, and so are then the entries of its unique key, of which there may be many.
CREATE TABLE IF NOT EXISTS dibs_job (
  seq             bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, -- enqueue order
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
  progress        double,
  attempts        int NOT NULL DEFAULT 0,
  max_attempts    int NOT NULL,
  events          int NOT NULL DEFAULT 1, -- how many are in its log
  status          enum('pending', 'claimed', 'completed', 'failed', 'cancelled') CHARACTER SET ascii NOT NULL DEFAULT 'pending',
  id              varbinary(512) NOT NULL,
  worker_id       varbinary(512),
  token           varbinary(512),
  settled_as      varchar(16) CHARACTER SET ascii,
  progress_note   varbinary(2048) NOT NULL DEFAULT '',
  idempotency_key varbinary(1020),
  unique_key      varbinary(1020),
  batch_id        varbinary(1020),
  terms           mediumblob NOT NULL,
  params          longblob NOT NULL,
  error           mediumblob,
  result          longblob,
  at              bigint GENERATED ALWAYS AS (
    CASE status WHEN 'pending' THEN due WHEN 'claimed' THEN lease_expires ELSE expires END) STORED,
  unfinished      tinyint GENERATED ALWAYS AS (CASE WHEN expires IS NULL THEN 1 END) STORED,
  UNIQUE KEY dibs_job_id (id),
  KEY dibs_job_agenda (lane, status, at, seq),
  KEY dibs_job_batch (batch_id, seq),
  UNIQUE KEY dibs_job_idempotency_key (idempotency_key),
  UNIQUE KEY dibs_job_unique_key (unique_key, unfinished)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- A job as the domain knows it, in the order that rows.py reads it.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW dibs_whole AS
  SELECT job.seq, job.lane, job.id, lane.queue, lane.task, job.params, lane.priority, job.status, job.due, job.attempts,
         job.max_attempts, job.fence, job.created, job.updated, job.terms, job.worker_id, job.claimed, job.lease_expires,
         job.claim_lease, job.token, job.settled_as, job.idempotency_key, job.unique_key, job.batch_id, job.result,
         job.error, job.progress, job.progress_note, job.completed, job.events, job.expires, job.first_due
  FROM dibs_job AS job JOIN dibs_lane AS lane ON lane.id = job.lane;

-- A job's log from its second event on. The first, enqueued, is told by the job itself.
CREATE TABLE IF NOT EXISTS dibs_event (
  job           bigint NOT NULL,
  n             int NOT NULL,
  at            bigint NOT NULL,
  due           bigint NOT NULL,
  fence         bigint NOT NULL,
  lease_expires bigint,
  attempts      int NOT NULL,
  event         varchar(16) CHARACTER SET ascii NOT NULL,
  was           varchar(16) CHARACTER SET ascii,
  became        varchar(16) CHARACTER SET ascii,
  worker_id     varbinary(512),
  actor         varbinary(1020),
  note          varbinary(4096) NOT NULL DEFAULT '',
  PRIMARY KEY (job, n)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- What is left of a job that was pruned, for a day: its last event.
CREATE TABLE IF NOT EXISTS dibs_tombstone (
  id       varbinary(512) NOT NULL PRIMARY KEY,
  n        int NOT NULL,
  was      varchar(16) CHARACTER SET ascii,
  actor    varbinary(1020),
  fence    bigint NOT NULL,
  attempts int NOT NULL,
  due      bigint NOT NULL,
  at       bigint NOT NULL,
  note     varbinary(4096) NOT NULL,
  KEY dibs_tombstone_at (at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS dibs_tag (
  tag varbinary(1020) NOT NULL,
  job bigint NOT NULL,
  PRIMARY KEY (tag, job)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS dibs_document (
  name    varbinary(1024) NOT NULL PRIMARY KEY,
  version bigint NOT NULL,
  value   longblob NOT NULL,
  updated bigint NOT NULL,
  expires bigint,
  KEY dibs_document_expires (expires)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
