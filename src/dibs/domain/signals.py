"""What a handler can raise to say how its claim should end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dibs.domain.retry import Duration


class Signal(Exception):
    """The root of the verdicts; obeyed and swallowed when a claim is left."""


class Retry(Signal):
    """Fail this attempt and try again, after ``delay`` if it is given, else after the job's own back-off."""

    def __init__(self, message: str = "retry requested", *, delay: Duration | None = None) -> None:
        self.delay = delay
        super().__init__(message)


class Fail(Signal):
    """Fail this job for good, whatever attempts are left."""

    def __init__(self, message: str = "failed for good", *, code: str | None = None) -> None:
        self.code = code
        super().__init__(message)


class Snooze(Signal):
    """Give the job back until later; no attempt is counted."""

    def __init__(self, delay: Duration) -> None:
        self.delay = delay
        super().__init__(f"snoozed for {delay}")
