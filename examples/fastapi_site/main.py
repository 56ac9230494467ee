"""A site that takes orders and has workers bill them.

From the folder above: uvicorn fastapi_site.main:web, and beside it: dibs worker fastapi_site.jobs:app
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Header, HTTPException, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel

import dibs

from .jobs import Order, app, bill


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
    async with app:  # it opens when it is first used; what is open is closed as the site stops
        yield


web = FastAPI(title="Orders", lifespan=lifespan)


class Told(BaseModel):
    """What callers are told of a job."""

    id: str
    status: str
    progress: float | None = None
    note: str = ""
    result: Any = None
    error: str | None = None

    @classmethod
    def of(cls, job: dibs.Job) -> "Told":
        error = None if job.error is None else job.error.message
        return cls(
            id=job.id,
            status=job.status,
            progress=job.progress,
            note=job.progress_note,
            result=job.result,
            error=error,
        )


@web.exception_handler(dibs.DibsError)
async def refuse(_: Request, error: Exception) -> JSONResponse:
    """Every error of dibs's knows its status: 422 for another order under the same key, 503 without a store…"""
    assert isinstance(error, dibs.DibsError)
    return JSONResponse({"detail": str(error), "code": error.code}, status_code=error.http_status)


@web.post("/orders", status_code=202)
async def take(
    order: Order,
    response: Response,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=255)] = None,
) -> Told:
    """Whoever sends an order twice, under the same key, gets the first one's job."""
    job = await bill.options(idempotency_key=idempotency_key).enqueue(order)
    response.headers["Location"] = web.url_path_for("look", id=job.id)
    return Told.of(job)


@web.get("/orders/{id}")
async def look(id: str, wait: Annotated[float, Query(ge=0, le=30)] = 0) -> Told:
    """Read a job: as it is, or as it has ended, if it does so within some seconds."""
    job = await known(id)
    if wait:
        try:
            job = await app.wait(id, timeout=wait)
        except TimeoutError:
            job = await known(id)
    return Told.of(job)


@web.get("/orders/{id}/events")
async def follow(id: str) -> StreamingResponse:
    """Follow a job to its end, as server-sent events."""
    await known(id)

    async def events() -> AsyncIterator[str]:
        async for job in app.watch(id):
            yield f"data: {Told.of(job).model_dump_json()}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


async def known(id: str) -> dibs.Job:
    """Find a job of this site; others of the same queue are no one's business here."""
    job = await app.get(id)
    if job is None or job.task != bill.name:
        raise HTTPException(404, f"there is no order {id}")
    return job
