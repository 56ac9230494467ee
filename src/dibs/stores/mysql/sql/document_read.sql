-- document_read.sql: one document, unless its time is over.
-- Race: none, a snapshot. Index: primary key. Order: none.
SELECT document.name, document.version, document.value, document.updated, document.expires
FROM (
  SELECT greatest(coalesce(%s, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))), max(clock.at)) AS now
  FROM dibs_clock AS clock
) AS moment CROSS JOIN dibs_document AS document
WHERE document.name = %s AND (document.expires IS NULL OR document.expires > moment.now)
