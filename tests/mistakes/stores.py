"""Mistakes of the stores: in what they compare, order and write together."""

from __future__ import annotations

from tests.mistakes.planting import Edit, Mistake

_M = "dibs.stores.memory.store:MemoryStore"
_S = "dibs.stores.sqlite"

MEMORY = [
    Mistake(
        "the due time is not looked at",
        8,
        "clocks",
        "memory",
        (Edit(f"{_M}._pick", "return self._pick_best(request, now)", "return self._pick_best(request, 2**62)"),),
        "simulator, memory",
    ),
    Mistake(
        "one more is leased than returned",
        10,
        "more leased than returned, wrong plan",
        "memory",
        (
            Edit(f"{_M}._pick_best", "len(picked) < request.limit", "len(picked) <= request.limit"),
            Edit(f"{_M}.claim", "self._pick(request, now)] for", "self._pick(request, now)][: request.limit] for"),
        ),
        "simulator, memory",
    ),
    Mistake(
        "keys are looked up before the lock is held",
        9,
        "uniqueness",
        "memory",
        (
            Edit(
                f"{_M}.insert",
                "    with self._lock:\n",
                "    named = [[self._identify(draft) for draft in group] for group in groups]\n"
                "    import asyncio; await asyncio.sleep(0.001)\n"
                "    with self._lock:\n",
            ),
            Edit(
                f"{_M}.insert",
                "(group, now) for group in groups",
                "(group, now, found) for group, found in zip(groups, named)",
            ),
            Edit(f"{_M}._insert_group", "now: int)", "now: int, named: list)"),
            Edit(f"{_M}._insert_group", "self._identify(draft)", "named[index]"),
        ),
        "simulator, memory",
    ),
    Mistake(
        "the log is written after the change",
        12,
        "audit",
        "memory",
        (
            Edit(
                f"{_M}._write",
                "row.events.append(event)",
                "import asyncio; asyncio.get_running_loop().call_later(0.001, row.events.append, event)",
            ),
        ),
        "simulator, memory",
    ),
    Mistake(
        "pruning takes what is still held",
        4,
        "lost when a worker dies",
        "memory",
        (
            Edit(
                f"{_M}.prune",
                "ended = self._table.ended.until(now, limit)",
                "ended = self._table.ended.until(now, limit) + self._table.leases.until(now, limit)",
            ),
        ),
        "simulator, memory",
    ),
    Mistake(
        "a refused group leaves its first jobs",
        4,
        "uniqueness",
        "memory",
        (Edit(f"{_M}._insert_group", "                self._table.remove(row)", "                pass"),),
        "simulator, memory",
    ),
    Mistake(
        "a paused queue hands out jobs",
        "§4",
        "lost when a worker dies",
        "memory",
        (Edit(f"{_M}._paused", "is not None", "is False"),),
        "store suite",
    ),
    Mistake(
        "the least urgent first",
        "§4",
        "more leased than returned, wrong plan",
        "memory",
        (Edit(f"{_M}._pick_best", "-1 if request", "1 if request"),),
        "store suite",
    ),
    Mistake(
        "a redrive takes a key that is taken",
        9,
        "uniqueness",
        "memory",
        (
            Edit(
                f"{_M}._write",
                "if write.event is EventName.REDRIVEN and row.job.unique_key in self._table.unique:",
                "if False:",
            ),
        ),
        "simulator, memory",
    ),
    Mistake(
        "the clock may be set back",
        1,
        "clocks",
        "memory",
        (Edit(f"{_M}._now", "max(self._high, self._clock.now())", "self._clock.now()"),),
        "simulator, memory",
    ),
    Mistake(
        "what is scheduled is not counted",
        13,
        "growth",
        "memory",
        (Edit(f"{_M}._counts", "scheduled = totals[Status.PENDING] - due", "scheduled = 0"),),
        "store suite",
    ),
]

SQLITE = [
    Mistake(
        "the quick way compares no claim",
        3,
        "zombie finishes over its successor",
        "sqlite",
        (
            Edit(
                f"{_S}.completing:_TAKE",
                "status = 'claimed' AND fence = ?5 AND token = ?4",
                "status = 'claimed' AND ?5 > 0 AND ?4 > ''",
            ),
        ),
        "simulator, sqlite",
    ),
    Mistake(
        "the quick way completes what was cancelled",
        7,
        "zombie finishes over its successor",
        "sqlite",
        (Edit(f"{_S}.completing:_TAKE", "status = 'claimed'", "status IN ('claimed', 'cancelled')"),),
        "simulator, sqlite",
    ),
    Mistake(
        "the fence stays as it was",
        2,
        "zombie finishes over its successor",
        "sqlite",
        (Edit(f"{_S}.claiming:_TAKE", "fence = fence + 1", "fence = max(fence, 1)"),),
        "simulator, sqlite",
    ),
    Mistake(
        "the token of the first claim is kept",
        5,
        "stuck for ever",
        "sqlite",
        (Edit(f"{_S}.claiming:_TAKE", "token = ?3", "token = coalesce(token, ?3)"),),
        "simulator, sqlite",
    ),
    Mistake(
        "a job that comes back is not announced",
        5,
        "stuck for ever",
        "sqlite",
        (Edit(f"{_S}.moment:Moment.lower", "self.execute(_LANE_LOWER, (lane_id, due))", "pass"),),
        "simulator, sqlite",
    ),
    Mistake(
        "a commit that failed is answered as done",
        4,
        "SQLite locked, WAL without end",
        "sqlite",
        (
            Edit(
                f"{_S}.engine:Engine._commit",
                '        connection.execute("COMMIT")',
                '        try:\n            connection.execute("COMMIT")\n'
                "        except apsw.Error:\n            self._roll_back(connection)",
            ),
        ),
        "simulator, sqlite",
    ),
    Mistake(
        "a change and its event are two transactions",
        12,
        "audit",
        "sqlite",
        (
            Edit(
                f"{_S}.writing:_Writing._flush",
                "    if self._events:\n",
                '    if self._events:\n        self._moment.execute("COMMIT; BEGIN IMMEDIATE")\n',
            ),
        ),
        "simulator, sqlite",
    ),
    Mistake(
        "a job and its payload are two transactions",
        4,
        "lost when a worker dies",
        "sqlite",
        (
            Edit(
                f"{_S}.inserting:_write",
                "    moment.executemany(\n        _PAYLOAD,",
                '    moment.execute("COMMIT; BEGIN IMMEDIATE")\n    moment.executemany(\n        _PAYLOAD,',
            ),
        ),
        "simulator, sqlite",
    ),
    Mistake(
        "a unique key is not looked up",
        9,
        "uniqueness",
        "sqlite",
        (Edit(f"{_S}.inserting:_BY_UNIQUE", "expires IS NULL", "expires IS NULL AND 0"),),
        "store suite",
    ),
    Mistake(
        "what is old is never pruned",
        14,
        "growth",
        "sqlite",
        (Edit(f"{_S}.removing:_DUE", "whole.expires <= ?2", "whole.expires <= ?2 - 1000000000000000"),),
        "store suite",
    ),
    Mistake(
        "the file is opened beside SQLite, which costs its locks",
        4,
        "two SQLite libraries on one file",
        "sqlite",
        (
            Edit(
                f"{_S}.wake:_Watcher._poll",
                "self._snapshot(self._link, self._waiting.look)",
                'open(self._link.path, "rb").close(); self._snapshot(self._link, self._waiting.look)',
            ),
        ),
        "SQLite's tests",
        "holds_its_locks",
    ),
    Mistake(
        "an SQLite that can damage the file is taken",
        4,
        "two SQLite libraries on one file",
        "sqlite",
        (Edit(f"{_S}.connection:check_library", "if version < OLDEST:", "if not version:"),),
        "SQLite's tests",
        "an_old_library_is_refused",
    ),
]

STORES = MEMORY + SQLITE
