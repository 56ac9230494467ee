"""Spans of what is enqueued and run, on every kind of store: who is whose parent, and how each run ended."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import dibs
from dibs import App, NewJob, Status
from dibs.contrib import otel
from dibs.testing import drain
from tests.worker import process_work
from tests.worker.conftest import read, until, work, working

HERE = Path(__file__).parent


class Traces:
    """What was exported, by the name of the span."""

    def __init__(self) -> None:
        self._kept = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self.tracer = self.provider.get_tracer("tests")

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._kept.get_finished_spans() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        [span] = self.named(name)
        return span

    def clear(self) -> None:
        self._kept.clear()


def number(span: ReadableSpan) -> tuple[int, int]:
    return span.context.trace_id, span.context.span_id


def parent(span: ReadableSpan) -> tuple[int, int] | None:
    return None if span.parent is None else (span.parent.trace_id, span.parent.span_id)


def linked(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def told(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@contextmanager
def with_baggage(name: str, text: str) -> Iterator[None]:
    token = context.attach(baggage.set_baggage(name, text))
    try:
        yield
    finally:
        context.detach(token)


@pytest.fixture
def traces() -> Traces:
    return Traces()


@pytest.fixture
def kinds(app: App, traces: Traces) -> App:
    """An app with a handler of each kind that makes a span of its own."""

    def work() -> str | None:
        with traces.tracer.start_as_current_span("work"):
            return baggage.get_baggage("customer")  # type: ignore[return-value]

    @app.task("async")
    async def on_loop() -> str | None:
        return work()

    @app.task("plain")
    def in_thread() -> str | None:
        return work()

    return app


@pytest.mark.parametrize("kind", ["async", "plain"])
@pytest.mark.parametrize("as_child", [False, True])
async def test_a_run_is_joined_to_whoever_enqueued_its_job(
    kinds: App, traces: Traces, kind: str, *, as_child: bool
) -> None:
    otel.instrument(kinds, parent=as_child, tracer_provider=traces.provider)
    with traces.tracer.start_as_current_span("request"), with_baggage("customer", "ann"):
        job = await kinds.enqueue(kind, queue="mail")
    with traces.tracer.start_as_current_span("around the worker"):
        await work(kinds, worker_id="w1")

    request, send, process, inner = (traces.one(name) for name in ("request", "send mail", "process mail", "work"))
    assert (send.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert parent(send) == number(request)
    assert linked(process) == [number(send)]
    assert parent(process) == (number(send) if as_child else None)
    assert parent(inner) == number(process)
    assert (process.context.trace_id == send.context.trace_id) is as_child
    about = {"messaging.system": "dibs", "messaging.destination.name": "mail", "messaging.message.id": job.id}
    about |= {"dibs.task": kind}
    assert told(send) == {**about, "messaging.operation.name": "send", "messaging.operation.type": "send"}
    assert told(process) == {
        **about,
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.client.id": "w1",
        "dibs.fence": 1,
        "dibs.attempt": 1,
        "dibs.max_attempts": 3,
        "dibs.outcome": "completed",
    }
    assert (process.status.status_code, send.status.status_code) == (StatusCode.UNSET, StatusCode.UNSET)
    ran = await read(kinds, job)
    assert ran.result == "ann", "baggage goes along"
    assert ran.trace["traceparent"].split("-")[1:3] == [
        f"{part:0{width}x}" for part, width in zip(number(send), (32, 16), strict=True)
    ]


@pytest.mark.parametrize("as_child", [False, True])
async def test_a_job_without_a_trace_begins_one(kinds: App, traces: Traces, *, as_child: bool) -> None:
    await kinds.enqueue("async")
    otel.instrument(kinds, parent=as_child, tracer_provider=traces.provider)
    with traces.tracer.start_as_current_span("around the worker"):
        await work(kinds)
    process = traces.one("process default")
    assert (parent(process), linked(process)) == (None, [])


async def test_each_way_to_enqueue_has_one_span(kinds: App, traces: Traces) -> None:
    otel.instrument(kinds, tracer_provider=traces.provider)
    task: Any = kinds.tasks["async"]
    await task.enqueue()
    await asyncio.to_thread(task.sync.enqueue)
    await asyncio.to_thread(kinds.sync.enqueue, "async")
    assert [told(span)["dibs.task"] for span in traces.named("send default")] == ["async"] * 3
    traces.clear()

    jobs = await kinds.enqueue_many([task.job(), NewJob("plain", queue="default"), task.job()])
    send = traces.one("send default")
    assert told(send)["messaging.batch.message_count"] == 3
    assert {"messaging.message.id", "dibs.task"}.isdisjoint(told(send))
    assert len({job.trace["traceparent"] for job in jobs}) == 1
    await kinds.enqueue_many([NewJob("async", queue="a"), NewJob("async", queue="b", trace={"my": "own"})])
    assert "messaging.destination.name" not in told(traces.one("send"))
    traces.clear()

    first = await task.options(idempotency_key="k").enqueue()
    again = await task.options(idempotency_key="k").enqueue()
    assert (again.was_duplicate, again.trace) == (True, first.trace)
    assert [told(span).get("dibs.duplicates") for span in traces.named("send default")] == [None, 1]


async def test_the_last_job_of_a_batch_is_joined_to_whoever_sealed_it(kinds: App, traces: Traces) -> None:
    otel.instrument(kinds, tracer_provider=traces.provider)
    with traces.tracer.start_as_current_span("request"):
        async with kinds.batch(on_end=NewJob("async", queue="last")) as batch:
            await batch.add([NewJob("plain")])
    await work(kinds)
    assert linked(traces.one("process last")) == [number(traces.one("request"))]


async def test_what_is_refused_is_told(app: App, traces: Traces) -> None:
    otel.instrument(app, tracer_provider=traces.provider)
    for queue in ("no good", ["not", "a", "name"]):
        with pytest.raises(dibs.InvalidJob, match="queue"):
            await app.enqueue("x", queue=queue)  # type: ignore[arg-type]
    assert [told(span)["error.type"] for span in (*traces.named("send no good"), *traces.named("send"))] == [
        "invalid"
    ] * 2
    assert traces.one("send").status.status_code is StatusCode.ERROR
    assert (await app.counts()).pending == 0


async def test_more_baggage_than_a_job_can_carry_is_left_out(app: App, traces: Traces) -> None:
    otel.instrument(app, tracer_provider=traces.provider)
    with with_baggage("much", "x" * 9000):
        job = await app.enqueue("x")
    assert list(job.trace) == ["traceparent"]


@pytest.mark.parametrize("kind", ["async", "plain", "process"])
@pytest.mark.parametrize(
    ("way", "outcomes", "wrong", "event"),
    [
        ("error", ["retried", "failed"], "ValueError", "exception"),
        ("own", ["retried", "failed"], "E2", "exception"),
        ("fail", ["failed"], "E1", "exception"),
        ("retry", ["retried", "failed"], "Retry", None),
        ("snooze", ["released"], None, "released"),
    ],
)
async def test_how_a_run_ended(
    traces: Traces, kind: str, way: str, outcomes: list[str], *, wrong: str | None, event: str | None
) -> None:
    async with App("memory://") as app:
        otel.instrument(app, tracer_provider=traces.provider)

        async def on_loop(way: str) -> Any:
            return process_work.end(way)

        function = on_loop if kind == "async" else process_work.end
        app.task("end", process=kind == "process", retry=dibs.Backoff(0, 0), max_attempts=2)(function)
        await app.enqueue("end", {"way": way})
        await work(app, handler_processes=1)

    spans = traces.named("process default")
    assert [told(span)["dibs.outcome"] for span in spans] == outcomes
    assert [told(span)["dibs.attempt"] for span in spans] == list(range(1, len(outcomes) + 1))
    assert [told(span)["dibs.fence"] for span in spans] == list(range(1, len(outcomes) + 1))
    last = spans[-1]
    assert last.status.status_code is (StatusCode.UNSET if wrong is None else StatusCode.ERROR)
    found = told(last).get("error.type")
    assert found == wrong or (found is not None and wrong == "Retry" and found.endswith("Retry"))
    if event is not None:
        [happened] = last.events
        assert happened.name == event
        if event == "exception":
            assert "process_work.py" in str((happened.attributes or {})["exception.stacktrace"]) or way == "fail"
    if way == "retry":
        assert (spans[0].status.status_code, [e.name for e in spans[0].events]) == (StatusCode.UNSET, ["retried"])


async def test_a_timeout_is_told_as_one(app: App, traces: Traces, tmp_path: Path) -> None:
    otel.instrument(app, tracer_provider=traces.provider)

    @app.task("async")
    async def on_loop() -> None:
        await asyncio.sleep(60)

    app.task("process", process=True)(process_work.sleep)
    await app.enqueue("async", timeout=0.1, max_attempts=1)
    await app.enqueue("process", {"file": str(tmp_path / "pids"), "seconds": 60}, timeout=0.1, max_attempts=1)
    await work(app)
    spans = traces.named("process default")
    assert [told(span)["dibs.outcome"] for span in spans] == ["failed"] * 2
    assert [told(span)["error.type"] for span in spans] == ["timeout"] * 2
    assert all("longer" in str(span.status.description) for span in spans)


async def test_a_lost_lease_and_a_stop_are_told(app: App, traces: Traces) -> None:
    otel.instrument(app, tracer_provider=traces.provider)
    begun: list[str] = []

    @app.task
    async def hang() -> None:
        begun.append(dibs.current().id)
        await asyncio.sleep(60)

    lost, stopped = await app.enqueue("hang"), await app.enqueue("hang")
    async with working(app, lease=1.0, grace=0):
        await until(lambda: len(begun) == 2)
        await app.cancel(lost.id)
        await until(lambda: traces.named("process default"))
    ends = {told(span)["messaging.message.id"]: span for span in traces.named("process default")}
    assert (told(ends[lost.id])["dibs.outcome"], told(ends[lost.id])["error.type"]) == ("lost", "lease_lost")
    assert (told(ends[stopped.id])["dibs.outcome"], "error.type" in told(ends[stopped.id])) == ("released", False)
    assert ends[stopped.id].status.status_code is StatusCode.UNSET


async def test_a_handler_that_settles_its_claim_itself(app: App, traces: Traces) -> None:
    otel.instrument(app, tracer_provider=traces.provider)

    @app.task
    async def settle(verb: str) -> None:
        claim = dibs.current()
        await {
            "complete": claim.complete,
            "fail": lambda: claim.fail("no", retryable=False),
            "release": lambda: claim.release(delay=3600),
        }[verb]()

    for verb in ("complete", "fail", "release"):
        await app.enqueue("settle", {"verb": verb})
        await work(app)
    assert [told(span)["dibs.outcome"] for span in traces.named("process default")] == [
        "completed",
        "failed",
        "released",
    ]


async def test_it_is_outside_of_other_middleware_and_drain_has_it_too(traces: Traces) -> None:
    app = App("memory://")

    @app.middleware
    async def inner(claim: dibs.Claim, call: dibs.Call) -> Any:
        with traces.tracer.start_as_current_span("inner"):
            return await call()

    otel.instrument(app, tracer_provider=traces.provider)

    @app.task
    async def greet() -> None: ...

    await greet.enqueue()
    await drain(app)
    await app.close()
    assert parent(traces.one("inner")) == number(traces.one("process default"))


async def test_an_app_is_instrumented_once() -> None:
    app = App("memory://")
    otel.instrument(app)
    with pytest.raises(dibs.InvalidRequest, match="instrumented already"):
        otel.instrument(app)
    other = App("memory://")
    other.trace_context(lambda: None)
    with pytest.raises(dibs.InvalidRequest, match="trace_context"):
        otel.instrument(other)
    assert (len(app.layers), other.layers) == (1, [])


def test_what_is_no_app_is_refused() -> None:
    with pytest.raises(dibs.InvalidRequest, match="app: must be"):
        otel.instrument("shop:app")  # type: ignore[arg-type]


async def test_without_a_provider_nothing_is_made_and_nothing_stored(app: App) -> None:
    otel.instrument(app)

    @app.task
    async def greet() -> bool:
        return trace.get_current_span().is_recording()

    job = await greet.enqueue()
    await work(app)
    after = await read(app, job)
    assert (after.status, after.result, after.trace) == (Status.COMPLETED, False, {})


@pytest.mark.parametrize("url", ["sqlite", "served"], indirect=True)
async def test_a_worker_process_goes_on_with_the_trace(app: App, url: str, traces: Traces, tmp_path: Path) -> None:
    """And so do the processes of its handlers."""
    otel.instrument(app, tracer_provider=traces.provider)
    names = ["on_loop", "in_thread", "in_process"]
    jobs = [await app.enqueue(name, queue=name) for name in names]
    left = tmp_path / "spans"
    command = [sys.executable, "-m", "dibs", "worker", "traced_app:app", "--until-idle"]
    environment = {**os.environ, "DIBS_STORE": url, "TEST_SPANS": str(left)}
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=HERE, env=environment, capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stderr

    spans = [json.loads(line) for line in left.read_text().splitlines()]
    pids = {(await read(app, job)).result for job in jobs}
    assert len(pids) == 2, "the process of a handler is another one"
    for name in names:
        [process] = [span for span in spans if span["name"] == f"process {name}"]
        [inner] = [span for span in spans if span["parent_id"] == process["context"]["span_id"]]
        assert inner["name"] == "work"
        assert inner["context"]["trace_id"] == process["context"]["trace_id"]
        [link] = process["links"]
        send = traces.one(f"send {name}")
        assert link["context"]["trace_id"] == f"0x{send.context.trace_id:032x}"
        assert link["context"]["span_id"] == f"0x{send.context.span_id:016x}"


def test_without_the_package_it_is_said_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "opentelemetry.py").write_text("raise ImportError\n")
    program = "import dibs\ntry:\n    import dibs.contrib.otel\nexcept dibs.NotSupported as error:\n    print(error)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert "pip install 'dibs-queue[otel]'" in done.stdout
