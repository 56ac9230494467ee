-- tombstone_page.sql: what is left of pruned jobs whose id was not used again, a page at a time.
-- Race: none, a snapshot. Index: primary key. Order: id.
SELECT id, n, before, actor, fence, attempts, due, at, note FROM dibs_tombstone AS gone
WHERE id > $1 AND NOT EXISTS (SELECT FROM dibs_name AS name WHERE name.id = gone.id) ORDER BY id LIMIT $2
