"""Schemas of tasks: workers publish them, and the server checks params by them before it enqueues."""

from __future__ import annotations

from dibs.server.route import Call, Reply, Route
from dibs.wire.schemas import Offered, Offering, Schemas, offers_of, shown


async def publish(call: Call) -> Reply:
    """Make schemas known. A task is not of one queue, so a key for some queues cannot say what it takes."""
    call.caller.need_all_queues()
    asked: Offering = call.body
    written = await call.broker.publish_schemas(offers_of(asked), by=call.caller.actor(asked.by))
    return Reply(Offered(written=written))


async def schemas(call: Call) -> Reply:
    """List the schemas."""
    call.caller.need_all_queues()
    return Reply(Schemas(schemas=[shown(info) for info in await call.broker.schemas()]))


ROUTES = (
    Route(
        "POST",
        "/api/schemas",
        publish,
        "Make known what the params of tasks must look like, as a worker's code says.",
        scope="work",
        bodies=(Offering,),
        answers={200: Offered},
        refuses=(413,),
    ),
    Route(
        "GET",
        "/api/schemas",
        schemas,
        "List the schemas that workers have published.",
        scope="read",
        answers={200: Schemas},
    ),
)
