"""One trace from a request to the jobs that it set off, with OpenTelemetry."""

import asyncio

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import dibs
from dibs.contrib import otel

exporter = InMemorySpanExporter()  # in its place, one that sends spans to where you look at them
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
tracer = provider.get_tracer("shop")

app = dibs.App("memory://")
otel.instrument(app, parent=True, tracer_provider=provider)


@app.task
async def order(number: int) -> None:
    await confirm.enqueue(number)


@app.task(queue="mail")
def confirm(number: int) -> None:
    with tracer.start_as_current_span("render"):
        pass


async def main() -> None:
    with tracer.start_as_current_span("POST /orders"):
        await order.enqueue(7)
    await dibs.Worker(app).run(until_idle=True)
    await app.close()
    for span in exporter.get_finished_spans():
        assert span.context is not None
        above = "begins it" if span.parent is None else f"is beneath {span.parent.span_id:x}"
        print(f"trace {span.context.trace_id:x}: {span.name!r}, {span.context.span_id:x}, {above}")


if __name__ == "__main__":
    asyncio.run(main())
