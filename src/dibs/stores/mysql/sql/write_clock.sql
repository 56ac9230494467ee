-- write_clock.sql: the time that something is being changed at, for all who share the database.
-- Race: two at once write different slots, mostly; it is the last lock of its transaction, so who waits for one holds up no circle.
-- Index: primary key. Order: none.
UPDATE dibs_clock SET at = greatest(at, %s) WHERE slot = %s
