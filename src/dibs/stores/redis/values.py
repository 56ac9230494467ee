"""Jobs, events and documents as bytes, and back. The scripts read and write the same forms: see ``lua/parts``.

A body is what never changes about a job, a state is what does. Numbers have fixed places, so that a script finds them
without decoding the rest; texts follow, their lengths known.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING

from dibs.domain.job import NEVER, Document, Event, EventName, Job, Status
from dibs.stores.common.rows import TermsWriter, anonymous, decode_error, decode_terms, encode_error, enqueued

if TYPE_CHECKING:
    from dibs.domain.job import Draft

# created, due at first, lease, kept when completed, max_attempts, priority; lengths of id, queue, task, idempotency and
# unique key, batch, terms
_BODY = Struct(">QQQQIhHHHHHHH")
_SETTLED = Struct(">QQIhHHHHHHH")  # the same without its times, which a script puts before it
# status, how the last claim ended, fence, attempts, events; due, updated, claimed, lease end and length, completed,
# expires, kept when completed; lengths of worker, token, queue, unique key, progress, note, error
_STATE = Struct(">ccIIIQQQQQQQQHHHHBHI")
# name, from, to, fence, attempts, due, lease end, at; lengths of worker, actor
_EVENT = Struct(">cccIIQQQHH")
_DOCUMENT = Struct(">QQQ")
_FLOAT = Struct(">d")
_LONG = Struct(">Q")
_RANK = Struct(">H")

_STATUS: dict[Status | None, bytes] = {
    Status.PENDING: b"p",
    Status.CLAIMED: b"c",
    Status.COMPLETED: b"d",
    Status.FAILED: b"f",
    Status.CANCELLED: b"x",
    None: b"-",
}
_EVENTS = {
    EventName.ENQUEUED: b"E",
    EventName.CLAIMED: b"C",
    EventName.COMPLETED: b"D",
    EventName.RETRIED: b"R",
    EventName.FAILED: b"F",
    EventName.RELEASED: b"L",
    EventName.EXPIRED: b"X",
    EventName.CANCELLED: b"N",
    EventName.REDRIVEN: b"V",
    EventName.PRUNED: b"P",
    None: b"-",
}
_STATUS_OF = {letter: status for status, letter in _STATUS.items() if status is not None}
_EVENT_OF = {letter: event for event, letter in _EVENTS.items()}
_HIGHEST = 32767
_MOST_LEFT = 2**24 - 1


# Numbers, and places in sorted sets


def long(number: int) -> bytes:
    """Write a number so that bytes are in its order."""
    return _LONG.pack(number)


def number(data: bytes) -> int:
    """Read what ``long`` has written."""
    value: int = _LONG.unpack(data)[0]
    return value


def letters(status: tuple[Status, ...]) -> bytes:
    """Write states, a letter each."""
    return b"".join(_STATUS[each] for each in status)


@lru_cache(maxsize=1024)
def lane(queue: str, task: str, priority: int) -> bytes:
    """Write where the pending jobs of a queue, task and priority stand; the highest priority first."""
    return b"%b\0%b\0%b" % (queue.encode(), task.encode(), _RANK.pack(_HIGHEST - priority))


def left(attempts: int) -> bytes:
    """Write how many attempts are left."""
    return min(max(attempts, 0), _MOST_LEFT).to_bytes(3, "big")


def pending(job: Job, seq: bytes) -> bytes:
    """Write a pending job's place."""
    return lane(job.queue, job.task, job.priority) + long(job.due_us) + seq + left(job.attempts_left)


class Place:
    """A pending job's place, read."""

    __slots__ = ("due", "left", "member", "rank", "seq")

    def __init__(self, member: bytes) -> None:
        self.member = member
        self.rank = int.from_bytes(member[-21:-19], "big")
        self.due = int.from_bytes(member[-19:-11], "big")
        self.seq = int.from_bytes(member[-11:-3], "big")
        self.left = int.from_bytes(member[-3:], "big")


def done(job: Job, seq: bytes, expires: int) -> bytes:
    """Write a finished job's place."""
    return b"%b\0%b%b%b" % (job.queue.encode(), _STATUS[job.status], long(expires), seq)


def indexed(batch_id: str | None, tags: tuple[str, ...]) -> list[bytes]:
    """Name the indexes that a job is in: each is put before its seq."""
    named = [] if batch_id is None else [batch(batch_id)]
    return [*named, *map(tag, dict.fromkeys(tags))]


def batch(batch_id: str) -> bytes:
    """Name the index of a batch."""
    return b"b%b\0" % batch_id.encode()


def tag(text: str) -> bytes:
    """Name the index of a tag."""
    return b"t%b\0" % text.encode()


# Jobs


def settled(draft: Draft | Job, terms: TermsWriter) -> bytes:
    """Write a body, but for its times."""
    # Written out: this is made for every job, and a loop over its texts doubles its price.
    id, queue, task = draft.id.encode(), draft.queue.encode(), draft.task.encode()
    key, unique, batch_id = draft.idempotency_key, draft.unique_key, draft.batch_id
    k = b"" if key is None else key.encode()
    u = b"" if unique is None else unique.encode()
    b = b"" if batch_id is None else batch_id.encode()
    t = terms.encode(draft.terms, draft.keep)
    fixed = _SETTLED.pack(
        draft.terms.lease_us, draft.keep.completed, draft.max_attempts, draft.priority, len(id), len(queue), len(task),
        len(k), len(u), len(b), len(t),
    )  # fmt: skip
    return b"".join((fixed, id, queue, task, k, u, b, t, draft.params_json))


@lru_cache(maxsize=4096)
def _text(data: bytes) -> str:
    return data.decode()


def job(body: bytes, state: bytes) -> Job:
    """Make a job, lease token and all; no state: it is as it was enqueued."""
    created, due, _, _, most, priority, n_id, n_queue, n_task, n_key, n_unique, n_batch, n_terms = _BODY.unpack_from(
        body
    )
    b = _BODY.size + n_id
    c = b + n_queue
    d = c + n_task
    e = d + n_key
    f = e + n_unique
    g = f + n_batch
    h = g + n_terms
    terms, keep = decode_terms(body[g:h])
    id, queue, task, params = body[_BODY.size : b].decode(), _text(body[b:c]), _text(body[c:d]), body[h:]
    key = body[d:e].decode() if n_key else None
    unique = body[e:f].decode() if n_unique else None
    batch_id = _text(body[f:g]) if n_batch else None
    if not state:
        return Job(
            id, queue, task, params, priority, Status.PENDING, due, 0, most, 0, created, created, terms, keep,
            idempotency_key=key, unique_key=unique, batch_id=batch_id,
        )  # fmt: skip
    (
        status, ended, fence, attempts, events, due, updated, claimed, lease_end, lease, completed, _, _,
        n_worker, n_token, n_queue, n_unique, n_progress, n_note, n_error,
    ) = _STATE.unpack_from(state)  # fmt: skip
    at = _STATE.size + n_queue + n_unique
    worker = _text(state[at : at + n_worker]) or None
    at += n_worker
    token = _text(state[at : at + n_token])
    at += n_token
    progress = _FLOAT.unpack_from(state, at)[0] if n_progress else None
    at += n_progress
    said = state[at : at + n_note].decode() if n_note else ""
    at += n_note
    error = decode_error(state[at : at + n_error]) if n_error else None
    return Job(
        id, queue, task, params, priority, _STATUS_OF[status], due, attempts, most, fence, created, updated, terms,
        keep, worker, claimed or None, lease_end or None, lease or None, token, _EVENT_OF[ended], key, unique,
        batch_id, state[at + n_error :] or None, error, progress, said, completed or None, events,
    )  # fmt: skip


def shown(body: bytes, state: bytes) -> Job:
    """Make a job that anyone may see."""
    return anonymous(job(body, state))


def expires(state: bytes) -> int:
    """Tell when a finished job may go."""
    value: int = _STATE.unpack_from(state)[11]
    return value


def state(job: Job, expires: int | None) -> bytes:
    """Write what changes about a job."""
    worker, token = (job.worker_id or "").encode(), job.lease_token.encode("utf-8", "surrogatepass")
    queue, unique = job.queue.encode(), (job.unique_key or "").encode()
    progress, said = float_(job.progress), job.progress_note.encode()
    error = encode_error(job.error) or b""
    fixed = _STATE.pack(
        _STATUS[job.status], _EVENTS[job.settled_as], job.fence, job.attempts, job.events, job.due_us, job.updated_us,
        job.claimed_us or 0, job.lease_expires_us or 0, job.claim_lease_us or 0, job.completed_us or 0, expires or 0,
        job.keep.completed, len(worker), len(token), len(queue), len(unique), len(progress), len(said), len(error),
    )  # fmt: skip
    return b"".join([fixed, queue, unique, worker, token, progress, said, error, job.result_json or b""])


def float_(value: float | None) -> bytes:
    """Write how far work has come."""
    return b"" if value is None else _FLOAT.pack(value)


def due(draft: Draft) -> bytes:
    """Write the earliest time that a draft may be due, if it names one."""
    if draft.delay_us is None:
        return long(NEVER)
    return b"" if draft.scheduled_us is None else long(max(draft.scheduled_us, 0))


# Events


def event(event: Event) -> bytes:
    """Write an event; its number is in its field's name."""
    worker, actor = (event.worker_id or "").encode(), (event.actor or "").encode()
    fixed = _EVENT.pack(
        _EVENTS[event.event], _STATUS[event.from_], _STATUS[event.to], event.fence, event.attempts, event.due_us,
        event.lease_expires_us or 0, event.at_us, len(worker), len(actor),
    )  # fmt: skip
    return b"".join([fixed, worker, actor, event.note.encode("utf-8", "surrogatepass")])


def read_event(id: str, seq: int, data: bytes) -> Event:
    """Read what ``event`` has written."""
    name, before, after, fence, attempts, due, lease_end, at, n_worker, n_actor = _EVENT.unpack_from(data)
    start = _EVENT.size
    worker = _text(data[start : start + n_worker]) or None
    start += n_worker
    actor = _text(data[start : start + n_actor]) or None
    said = data[start + n_actor :].decode("utf-8", "surrogatepass")
    happened = _EVENT_OF[name]
    assert happened is not None  # noqa: S101 - an event has a name
    return Event(
        id, seq, happened, _STATUS_OF.get(before), _STATUS_OF.get(after), worker, actor, fence, attempts, due,
        lease_end or None, at, said,
    )  # fmt: skip


def first_event(id: str, body: bytes) -> Event:
    """Make a job's first event, which is not stored, of its body's first 16 bytes."""
    return enqueued(id, number(body[:8]), number(body[8:16]))


def log(id: str, body: bytes, events: list[bytes]) -> list[Event]:
    """Read a job's events."""
    return [first_event(id, body), *(read_event(id, at, data) for at, data in enumerate(events, 2))]


def grave(event_: Event) -> bytes:
    """Write what is left of a job that is gone: when it went comes first."""
    return long(event_.at_us) + event_.seq.to_bytes(4, "big") + event(event_)


def read_grave(id: str, data: bytes) -> Event:
    """Read what ``grave`` has written."""
    return read_event(id, int.from_bytes(data[8:12], "big"), data[12:])


# Documents


def document(name: bytes, data: bytes) -> Document:
    """Read a document."""
    version, updated, expires = _DOCUMENT.unpack_from(data)
    return Document(name.decode(), version, data[_DOCUMENT.size :], updated, expires or None)
