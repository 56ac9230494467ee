-- What the migrations add up to. Made by tools/schema.py, for reading and for diffs; nothing runs it.

CREATE TABLE dibs_clock (
  slot tinyint(3) unsigned NOT NULL,
  at bigint(20) NOT NULL,
  UNIQUE KEY PRIMARY (slot)
);

CREATE TABLE dibs_document (
  name varbinary(1024) NOT NULL,
  version bigint(20) NOT NULL,
  value longblob NOT NULL,
  updated bigint(20) NOT NULL,
  expires bigint(20),
  KEY dibs_document_expires (expires),
  UNIQUE KEY PRIMARY (name)
);

CREATE TABLE dibs_event (
  job bigint(20) NOT NULL,
  n int(11) NOT NULL,
  at bigint(20) NOT NULL,
  due bigint(20) NOT NULL,
  fence bigint(20) NOT NULL,
  lease_expires bigint(20),
  attempts int(11) NOT NULL,
  event varchar(16) NOT NULL,
  was varchar(16),
  became varchar(16),
  worker_id varbinary(512),
  actor varbinary(1020),
  note varbinary(4096) NOT NULL DEFAULT '',
  UNIQUE KEY PRIMARY (job,n)
);

CREATE TABLE dibs_job (
  seq bigint(20) NOT NULL auto_increment,
  lane bigint(20) NOT NULL,
  due bigint(20) NOT NULL,
  first_due bigint(20) NOT NULL,
  created bigint(20) NOT NULL,
  updated bigint(20) NOT NULL,
  lease bigint(20) NOT NULL,
  kept bigint(20) NOT NULL,
  fence bigint(20) NOT NULL DEFAULT 0,
  claimed bigint(20),
  lease_expires bigint(20),
  claim_lease bigint(20),
  completed bigint(20),
  expires bigint(20),
  progress double,
  attempts int(11) NOT NULL DEFAULT 0,
  max_attempts int(11) NOT NULL,
  events int(11) NOT NULL DEFAULT 1,
  status enum('pending','claimed','completed','failed','cancelled') NOT NULL DEFAULT 'pending',
  id varbinary(512) NOT NULL,
  worker_id varbinary(512),
  token varbinary(512),
  settled_as varchar(16),
  progress_note varbinary(2048) NOT NULL DEFAULT '',
  idempotency_key varbinary(1020),
  unique_key varbinary(1020),
  batch_id varbinary(1020),
  terms mediumblob NOT NULL,
  params longblob NOT NULL,
  error mediumblob,
  result longblob,
  at bigint(20) STORED GENERATED AS (case `status` when 'pending' then `due` when 'claimed' then `lease_expires` else `expires` end),
  unfinished tinyint(4) STORED GENERATED AS (case when `expires` is null then 1 end),
  KEY dibs_job_agenda (lane,status,at,seq),
  KEY dibs_job_batch (batch_id,seq),
  UNIQUE KEY dibs_job_id (id),
  UNIQUE KEY dibs_job_idempotency_key (idempotency_key),
  UNIQUE KEY dibs_job_unique_key (unique_key,unfinished),
  UNIQUE KEY PRIMARY (seq)
);

CREATE TABLE dibs_lane (
  id bigint(20) NOT NULL auto_increment,
  queue varbinary(512) NOT NULL,
  task varbinary(512) NOT NULL,
  priority int(11) NOT NULL,
  UNIQUE KEY dibs_lane_name (queue,task,priority),
  UNIQUE KEY PRIMARY (id)
);

CREATE TABLE dibs_migration (
  version int(11) NOT NULL,
  name varchar(255) NOT NULL,
  at timestamp NOT NULL DEFAULT current_timestamp(),
  UNIQUE KEY PRIMARY (version)
);

CREATE TABLE dibs_tag (
  tag varbinary(1020) NOT NULL,
  job bigint(20) NOT NULL,
  UNIQUE KEY PRIMARY (tag,job)
);

CREATE TABLE dibs_tombstone (
  id varbinary(512) NOT NULL,
  n int(11) NOT NULL,
  was varchar(16),
  actor varbinary(1020),
  fence bigint(20) NOT NULL,
  attempts int(11) NOT NULL,
  due bigint(20) NOT NULL,
  at bigint(20) NOT NULL,
  note varbinary(4096) NOT NULL,
  KEY dibs_tombstone_at (at),
  UNIQUE KEY PRIMARY (id)
);

CREATE VIEW dibs_whole (
  seq bigint(20) NOT NULL DEFAULT 0,
  lane bigint(20) NOT NULL,
  id varbinary(512) NOT NULL,
  queue varbinary(512) NOT NULL,
  task varbinary(512) NOT NULL,
  params longblob NOT NULL,
  priority int(11) NOT NULL,
  status enum('pending','claimed','completed','failed','cancelled') NOT NULL DEFAULT 'pending',
  due bigint(20) NOT NULL,
  attempts int(11) NOT NULL DEFAULT 0,
  max_attempts int(11) NOT NULL,
  fence bigint(20) NOT NULL DEFAULT 0,
  created bigint(20) NOT NULL,
  updated bigint(20) NOT NULL,
  terms mediumblob NOT NULL,
  worker_id varbinary(512),
  claimed bigint(20),
  lease_expires bigint(20),
  claim_lease bigint(20),
  token varbinary(512),
  settled_as varchar(16),
  idempotency_key varbinary(1020),
  unique_key varbinary(1020),
  batch_id varbinary(1020),
  result longblob,
  error mediumblob,
  progress double,
  progress_note varbinary(2048) NOT NULL DEFAULT '',
  completed bigint(20),
  events int(11) NOT NULL DEFAULT 1,
  expires bigint(20),
  first_due bigint(20) NOT NULL
);
