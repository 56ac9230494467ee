-- job_page.sql: whole jobs after a place, for the audit.
-- Race: none, in the snapshot that reads their logs. Index: primary keys. Order: enqueue order.
SELECT whole.* FROM dibs_whole AS whole WHERE whole.seq > %s ORDER BY whole.seq LIMIT %s
