-- document_read.sql: one document, unless its time is over.
-- Race: none, a snapshot. Index: primary key. Order: none.
SELECT document.name, document.version, document.value, document.updated, document.expires
FROM dibs_document AS document CROSS JOIN (
  SELECT greatest(coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), last_value) AS now
  FROM dibs_clock
) AS moment
WHERE document.name = $2 AND (document.expires IS NULL OR document.expires > moment.now)
