"""``dibs bench``: figures, and nothing left behind."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import dibs
from dibs.cli.commands import run
from tests.server.process import Serving


@pytest.fixture(params=["sqlite", "served"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "served":
        with Serving(tmp_path, "--no-auth") as serving:
            yield serving.url
    else:
        yield f"sqlite:///{tmp_path / 'jobs.db'}"


def test_figures_and_nothing_is_left(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with dibs.App(url).sync as app:
        mine = app.enqueue("mine")
        assert run(["bench", "--jobs", "300", "--json", "--store", url]) == 0
        figures = json.loads(capsys.readouterr().out)
        assert figures.pop("jobs") == 300
        assert sorted(figures) == [
            *("ended_alone_per_second", "ended_per_second", "enqueued_alone_per_second", "enqueued_per_second"),
            "pickup_ms",
        ]
        assert all(figure > 0 for figure in figures.values())
        assert [(job.id, job.fence) for job in app.find().items] == [(mine.id, 0)]


def test_a_table_and_where_it_was_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "--jobs", "100", "--store", f"sqlite:///{tmp_path / 'new.db'}"]) == 0
    said = capsys.readouterr()
    assert said.out.count("/s") == 4
    assert "new.db" in said.err


def test_too_few_to_measure(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "--jobs", "1"]) == 2
    assert "jobs: must be" in capsys.readouterr().err
