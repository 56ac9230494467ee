"""What goes over the wire comes back as it was: no microsecond, no field and no character is lost on the way."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dibs.domain.audit import Report, Violation
from dibs.domain.job import NEVER, Counts, Document, Event, EventName, Job, QueueInfo, Status, WorkerInfo
from dibs.domain.retry import micros
from dibs.wire import answered, read, show
from tests.unit.strategies import MOMENTS, jobs, texts

events = st.builds(
    Event,
    st.just("job"),
    st.integers(1, 10**6),
    st.sampled_from(EventName),
    st.none() | st.sampled_from(Status),
    st.none() | st.sampled_from(Status),
    st.none() | texts,
    st.none() | texts,
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    MOMENTS | st.just(NEVER),
    st.none() | MOMENTS,
    MOMENTS,
    texts,
)
counts = st.builds(Counts, *[st.integers(0, 10**9)] * 6, exact=st.booleans())


def sent(value: Any) -> Any:
    """Send it, and read what arrives."""
    return msgspec.json.decode(msgspec.json.encode(value), type=type(value))


def told(job: Job) -> Job:
    """A job as far as it is told: how its last claim ended and how many events it has is the store's business."""
    retry = job.terms.retry
    return msgspec.structs.replace(
        job,
        settled_as=None,
        events=1,
        result_json=None if job.result_json == b"null" else job.result_json,
        terms=msgspec.structs.replace(
            job.terms, retry=type(retry)(micros(retry.base) / 1_000_000, micros(retry.cap) / 1_000_000)
        ),
    )


@given(jobs())
def test_a_job(job: Job) -> None:
    assert read.job_of(sent(show.task_of(job, token=True, duplicate=True))) == told(job)


@given(jobs())
def test_a_job_without_its_token(job: Job) -> None:
    shown = sent(show.task_of(job))
    assert shown.lease_token is msgspec.UNSET
    assert read.job_of(shown).lease_token == ""


@given(events)
def test_an_event(event: Event) -> None:
    assert read.event_of("job", sent(show.log_entry(event))) == event


@given(counts, st.booleans(), st.none() | MOMENTS)
def test_a_queue(counts: Counts, paused: bool, oldest: int | None) -> None:
    info = QueueInfo("a/b", counts, paused, oldest)
    assert read.queue_info(sent(show.queue_of(info))) == info
    assert read.queue_info(sent(show.queue_of(info, 1_800_000_000_000_000))) == info


@given(st.binary(max_size=50), MOMENTS, st.none() | MOMENTS, st.integers(0, 10**9))
def test_a_document(value: bytes, updated: int, expires: int | None, version: int) -> None:
    document = Document("once/ü", version, value, updated, expires)
    assert read.document_of(sent(show.found_of(document))) == document


@given(MOMENTS, st.dictionaries(texts, st.none() | st.integers(0, 10**6) | texts, max_size=3))
def test_a_worker(seen: int, metadata: dict[str, Any]) -> None:
    info = WorkerInfo("w", "stale", seen, 3, metadata)
    assert read.worker_info(sent(show.worker_of(info))) == info


@given(st.lists(events, min_size=1, max_size=3, unique_by=lambda event: event.seq), st.booleans())
def test_a_report(neighbours: list[Event], of_an_event: bool) -> None:
    event = neighbours[-1] if of_an_event else None
    report = Report(5, 9, 1, (Violation(3, "a sentence", "job", event, tuple(neighbours)),), 7)
    arrived = read.report_of(sent(show.verified_of(report)))
    assert arrived == report
    assert str(arrived) == str(report)
    assert not arrived.ok


def test_an_answer_may_have_fields_that_are_not_known_yet() -> None:
    body = (
        b'{"success": true, "queue": null, "news": 1, "counts": {"pending": 1, "scheduled": 0, "claimed": 0,'
        b' "completed": 0, "failed": 0, "cancelled": 0, "exact": true, "lost": 5}}'
    )
    assert msgspec.json.decode(body, type=answered.Stats).counts.pending == 1
