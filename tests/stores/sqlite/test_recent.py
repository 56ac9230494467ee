"""Recent claims: event loops add to them while the writer takes from them."""

import threading
from collections.abc import Iterator

import pytest

from dibs.domain.job import Job
from dibs.stores.sqlite import recent
from dibs.stores.sqlite.recent import Recent
from dibs.testing.conformance.builders import new_job


def claimed(number: int) -> list[tuple[int, Job]]:
    return [(n, new_job(f"{n}").job(0)) for n in range(number)]


class Interrupted(dict[str, tuple[int, Job]]):
    """Lets the writer take something just as a loop looks for the oldest, unless it has to wait for the loop."""

    def __init__(self, claims: Recent) -> None:
        super().__init__()
        self._claims = claims
        self.writers: list[threading.Thread] = []

    def __iter__(self) -> Iterator[str]:
        keys = super().__iter__()
        self.writers.append(threading.Thread(target=self._claims.take, args=(["1"],)))
        self.writers[-1].start()
        self.writers[-1].join(0.05)
        return keys


def test_loops_add_while_the_writer_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "_MOST", 2)
    claims = Recent()
    claims._jobs = jobs = Interrupted(claims)
    [a, b, c] = claimed(3)

    claims.add([a, b, c])

    for writer in jobs.writers:
        writer.join()
    assert claims.take(["0", "1", "2"]) == [None, None, c]


def test_the_oldest_are_forgotten_and_what_was_taken_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "_MOST", 2)
    claims = Recent()
    [a, b, c] = claimed(3)
    claims.add([a, b, c])

    assert claims.take(["0", "1", "2"]) == [None, b, c]
    assert claims.take(["1"]) == [None]
