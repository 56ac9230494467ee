"""What is answered when a call was refused: ``application/problem+json``, and what its fields are called in Python."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

MEDIA = "application/problem+json"

# What Python calls it, and what it is called on the wire.
NAMES: dict[str, str] = {
    "jobs": "tasks",
    "task": "task_type",
    "tasks": "task_types",
    "delay": "delay_seconds",
    "lease": "lease_seconds",
    "timeout": "timeout_seconds",
    "wait": "wait_seconds",
    "batch": "batch_id",
    "min_attempts_left": "max_attempts_remaining",
    "order": "sort_by",
    "fraction": "progress",
    "note": "progress_note",
    "endings": "claims",
    "extensions": "claims",
    "where": "filter",
    "every": "every_seconds",
}


class FieldProblem(Struct, frozen=True):
    """One thing wrong with what was sent."""

    field: str
    message: str


class Problem(Struct, frozen=True, kw_only=True):
    """Why a call was refused. ``code`` is stable; ``errors`` names the fields at fault."""

    type: str
    title: str
    status: int
    detail: str
    success: Literal[False] = False
    error: str
    message: str
    code: str
    errors: list[FieldProblem] | UnsetType = UNSET
    filters: dict[str, Any] | UnsetType = UNSET
    size: int | UnsetType = UNSET  # in bytes, of what is too large
    limit: int | UnsetType = UNSET
