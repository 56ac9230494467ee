-- What the migrations add up to. Made by tools/schema.py, for reading and for diffs; nothing runs it.

CREATE SEQUENCE dibs_clock;

CREATE TABLE dibs_document (
  name text COLLATE "C" NOT NULL,
  version bigint NOT NULL,
  value bytea NOT NULL,
  updated bigint NOT NULL,
  expires bigint
);
CREATE INDEX dibs_document_expires ON dibs_document USING btree (expires) WHERE (expires IS NOT NULL);
CREATE UNIQUE INDEX dibs_document_pkey ON dibs_document USING btree (name);

CREATE TABLE dibs_event (
  job bigint NOT NULL,
  at bigint NOT NULL,
  due bigint NOT NULL,
  fence bigint NOT NULL,
  lease_expires bigint,
  n integer NOT NULL,
  attempts integer NOT NULL,
  event text COLLATE "C" NOT NULL,
  before text COLLATE "C",
  after text COLLATE "C",
  worker_id text COLLATE "C",
  actor text,
  note text NOT NULL DEFAULT ''::text
);
CREATE UNIQUE INDEX dibs_event_pkey ON dibs_event USING btree (job, n);

CREATE TABLE dibs_job (
  seq bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  lane bigint NOT NULL,
  due bigint NOT NULL,
  first_due bigint NOT NULL,
  created bigint NOT NULL,
  updated bigint NOT NULL,
  lease bigint NOT NULL,
  kept bigint NOT NULL,
  fence bigint NOT NULL DEFAULT 0,
  claimed bigint,
  lease_expires bigint,
  claim_lease bigint,
  completed bigint,
  expires bigint,
  progress double precision,
  attempts integer NOT NULL DEFAULT 0,
  max_attempts integer NOT NULL,
  events integer NOT NULL DEFAULT 1,
  untold smallint NOT NULL DEFAULT 0,
  status text COLLATE "C" NOT NULL DEFAULT 'pending'::text,
  id text COLLATE "C" NOT NULL,
  worker_id text COLLATE "C",
  token text COLLATE "C",
  settled_as text COLLATE "C",
  progress_note text NOT NULL DEFAULT ''::text,
  idempotency_key text COLLATE "C",
  unique_key text COLLATE "C",
  batch_id text COLLATE "C",
  terms bytea NOT NULL,
  params bytea NOT NULL,
  error bytea,
  result bytea
) WITH (autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_insert_scale_factor=0.05, autovacuum_analyze_scale_factor=0.05, autovacuum_vacuum_cost_delay=1);
CREATE INDEX dibs_job_batch ON dibs_job USING btree (batch_id, seq) WHERE (batch_id IS NOT NULL);
CREATE INDEX dibs_job_failed ON dibs_job USING btree (seq) WHERE (status = 'failed'::text);
CREATE INDEX dibs_job_finished ON dibs_job USING btree (lane, status, expires) WHERE (expires IS NOT NULL);
CREATE UNIQUE INDEX dibs_job_idempotency_key ON dibs_job USING btree (idempotency_key) WHERE (idempotency_key IS NOT NULL);
CREATE INDEX dibs_job_leases ON dibs_job USING btree (lease_expires, lane) WHERE (status = 'claimed'::text);
CREATE INDEX dibs_job_pending ON dibs_job USING btree (lane, due, seq) WHERE (status = 'pending'::text);
CREATE UNIQUE INDEX dibs_job_pkey ON dibs_job USING btree (seq);
CREATE UNIQUE INDEX dibs_job_unique_key ON dibs_job USING btree (unique_key) WHERE ((unique_key IS NOT NULL) AND (expires IS NULL));

CREATE TABLE dibs_lane (
  id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  queue text COLLATE "C" NOT NULL,
  task text COLLATE "C" NOT NULL,
  priority integer NOT NULL
);
CREATE UNIQUE INDEX dibs_lane_name ON dibs_lane USING btree (queue, task, priority);
CREATE UNIQUE INDEX dibs_lane_pkey ON dibs_lane USING btree (id);

CREATE TABLE dibs_migration (
  version integer NOT NULL,
  name text NOT NULL,
  at timestamp with time zone NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX dibs_migration_pkey ON dibs_migration USING btree (version);

CREATE TABLE dibs_name (
  id text COLLATE "C" NOT NULL,
  job bigint NOT NULL
);
CREATE UNIQUE INDEX dibs_name_pkey ON dibs_name USING btree (id);

CREATE TABLE dibs_tag (
  tag text COLLATE "C" NOT NULL,
  job bigint NOT NULL
);
CREATE UNIQUE INDEX dibs_tag_pkey ON dibs_tag USING btree (tag, job);

CREATE TABLE dibs_tombstone (
  id text COLLATE "C" NOT NULL,
  n integer NOT NULL,
  before text COLLATE "C",
  actor text,
  fence bigint NOT NULL,
  attempts integer NOT NULL,
  due bigint NOT NULL,
  at bigint NOT NULL,
  note text NOT NULL
);
CREATE INDEX dibs_tombstone_at ON dibs_tombstone USING btree (at);
CREATE UNIQUE INDEX dibs_tombstone_pkey ON dibs_tombstone USING btree (id);

CREATE VIEW dibs_untold (
  job bigint,
  n integer,
  event text COLLATE "C",
  before text COLLATE "C",
  after text COLLATE "C",
  worker_id text COLLATE "C",
  actor text,
  fence bigint,
  attempts integer,
  due bigint,
  lease_expires bigint,
  at bigint,
  note text
);

CREATE VIEW dibs_whole (
  seq bigint,
  lane bigint,
  id text COLLATE "C",
  queue text COLLATE "C",
  task text COLLATE "C",
  params bytea,
  priority integer,
  status text COLLATE "C",
  due bigint,
  attempts integer,
  max_attempts integer,
  fence bigint,
  created bigint,
  updated bigint,
  terms bytea,
  worker_id text COLLATE "C",
  claimed bigint,
  lease_expires bigint,
  claim_lease bigint,
  token text COLLATE "C",
  settled_as text COLLATE "C",
  idempotency_key text COLLATE "C",
  unique_key text COLLATE "C",
  batch_id text COLLATE "C",
  result bytea,
  error bytea,
  progress double precision,
  progress_note text,
  completed bigint,
  events integer,
  expires bigint,
  first_due bigint
);
