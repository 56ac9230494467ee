-- document_paused.sql: the names of the queues that are paused.
-- Race: none, a snapshot. Index: primary key. Order: none.
SELECT substr(document.name, 8)
FROM dibs_document AS document CROSS JOIN (
  SELECT greatest(coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), last_value) AS now
  FROM dibs_clock
) AS moment
WHERE document.name >= 'paused/' AND document.name < 'paused0' AND (document.expires IS NULL OR document.expires > moment.now)
