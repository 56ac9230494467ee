-- document_put.sql: a document as it is from now on, whatever it was before: in one statement, since every worker that is
--   alive writes its own again and again.
-- Race: one who compares versions first holds the name's lock meanwhile, so this takes it too; the row that it then finds is
--   the newest, not that of its snapshot, and its own time is never put before that one's. Index: primary key. Order: none.
WITH turn AS MATERIALIZED (
  SELECT pg_advisory_xact_lock(hashtextextended('dibs_document/' || current_schema() || '/' || $2, 0))
), moment AS MATERIALIZED (
  SELECT greatest(coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), last_value) AS now
  FROM turn CROSS JOIN dibs_clock
), written AS (
  INSERT INTO dibs_document AS old (name, version, value, updated, expires)
  SELECT $2, 1, $3, moment.now, moment.now + $4::bigint FROM moment
  ON CONFLICT (name) DO UPDATE SET
    version = CASE WHEN old.expires <= excluded.updated THEN 1 ELSE old.version + 1 END, value = excluded.value,
    updated = greatest(old.updated, excluded.updated), expires = greatest(old.updated, excluded.updated) + $4::bigint
  RETURNING version, updated, expires
)
SELECT written.version, written.updated, written.expires,
  setval('dibs_clock', greatest(written.updated, (SELECT last_value FROM dibs_clock)))
FROM written
