-- remove_events.sql: a job's log goes with it.
-- Race: none, in the transaction of remove_job. Index: primary key. Order: none.
DELETE FROM dibs_event WHERE id IN
  (SELECT event.id FROM json_each(?) AS gone
   CROSS JOIN dibs_event AS event ON event.id >= gone.value << 24 AND event.id < gone.value + 1 << 24)
