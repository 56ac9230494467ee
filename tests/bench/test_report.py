"""What a run leaves behind: a table, a file for programs, a drawing."""

import io
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from rich.console import Console

from bench import __main__ as command
from bench import report
from bench.cases import Case
from bench.plot import write_plot
from bench.run import Run
from bench.venvs import NoPeer
from bench.view import View


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run(tmp_path, View())
    run.figure("end-to-end", "huey sqlite", "jobs", "/s", [3_000.0, 3_100.0, 2_900.0])
    run.bar("end-to-end", "over the best peer", "×", [7.0, 8.0, 9.0], at_least=6)
    run.rates = {
        "SQLite": {"dibs worker, sqlite": [30_000.0, 31_000.0, 29_000.0], "huey sqlite": [3_000.0, 3_100.0, 2_900.0]}
    }
    run.contenders = {"huey": "huey 3.5.4: two threads"}
    return run


def test_the_table_names_contenders_and_bars(run: Run) -> None:
    report.show(run, Console(width=150, file=(told := io.StringIO())))
    text = told.getvalue()
    assert "huey 3.5.4: two threads" in text
    assert "3,000 /s" in text
    assert "held" in text


def test_the_file_has_every_turn_and_who_took_part(run: Run, tmp_path: Path) -> None:
    report.write_json(run, tmp_path / "found.json")
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["contenders"] == run.contenders
    assert found["figures"][0]["values"] == [3_000.0, 3_100.0, 2_900.0]
    assert found["bars"][0]["held"] is True


@pytest.mark.parametrize("curves", [{}, {"sqlite": {"pending": [(10_000, 30.0), (100_000, 31.0)]}}])
def test_the_drawing_has_a_bar_for_each_contender(
    run: Run, tmp_path: Path, curves: dict[str, dict[str, list[tuple[int, float]]]]
) -> None:
    write_plot(curves, run.rates, tmp_path / "found.svg")
    texts = [element.text for element in ET.parse(tmp_path / "found.svg").iter() if element.text]
    assert {"dibs worker, sqlite", "huey sqlite", "30,000", "3,000"} <= set(texts)
    assert ("pending" in texts) == bool(curves)


def test_a_peer_that_cannot_be_installed_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def measure(run: Run) -> None:
        raise NoPeer("huey could not be installed: no network")

    monkeypatch.setattr(command, "CASES", (Case("peers", "", measure),))
    monkeypatch.setattr("sys.argv", ["bench"])
    assert command.main() == command.UNREADY
    assert "huey could not be installed" in capsys.readouterr().err
