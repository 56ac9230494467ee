-- insert_tag.sql: new jobs' tags, so that they are found by them.
-- Race: none, in the transaction of insert. Index: dibs_name_pkey. Order: none.
INSERT INTO dibs_tag (tag, job)
SELECT DISTINCT tagged.tag, name.job FROM unnest($1::text[], $2::text[]) AS tagged (id, tag) JOIN dibs_name AS name ON name.id = tagged.id
