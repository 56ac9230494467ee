"""A server process for the broker over HTTP, started once."""

from collections.abc import Iterator

import pytest

from tests.broker.serving import Process


@pytest.fixture(scope="session")
def process() -> Iterator[Process]:
    with Process() as process:
        yield process
