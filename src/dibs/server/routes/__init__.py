"""The table of routes. Those with a fixed last part come before those where it is an id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.server.routes import (
    about,
    batches,
    claim,
    documents,
    enqueue,
    events,
    look,
    operate,
    schedules,
    schemas,
    settle,
    workers,
)

if TYPE_CHECKING:
    from dibs.server.route import Route

ROUTES: tuple[Route, ...] = (
    *enqueue.ROUTES,
    *claim.ROUTES,
    *settle.ROUTES,
    *workers.ROUTES,
    *operate.ROUTES,
    *look.ROUTES,
    *batches.ROUTES,
    *schedules.ROUTES,
    *schemas.ROUTES,
    *documents.ROUTES,
    *events.ROUTES,
    *about.ROUTES,
)
