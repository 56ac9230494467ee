"""An app whose spans are left in a file, one JSON object a line, by whichever process made them."""

import os
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

import dibs
from dibs.contrib import otel


def as_line(span: ReadableSpan) -> str:
    return f"{span.to_json(indent=None)}\n"


provider = TracerProvider()
spans = Path(os.environ["TEST_SPANS"]).open("a")  # noqa: SIM115 - for as long as the process lives
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=spans, formatter=as_line)))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("traced_app")

app = dibs.App()
otel.instrument(app)


def work() -> int:
    with tracer.start_as_current_span("work"):
        return os.getpid()


@app.task
async def on_loop() -> int:
    return work()


@app.task
def in_thread() -> int:
    return work()


@app.task(process=True)
def in_process() -> int:
    return work()
