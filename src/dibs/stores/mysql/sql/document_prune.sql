-- document_prune.sql: documents whose time is over go.
-- Race: none, the rows are locked. Index: primary key. Order: none.
DELETE document
FROM JSON_TABLE(%s, '$[*]' COLUMNS (name varchar(1024) CHARACTER SET utf8mb4 PATH '$')) AS given
STRAIGHT_JOIN dibs_document AS document FORCE INDEX (PRIMARY) ON document.name = given.name
