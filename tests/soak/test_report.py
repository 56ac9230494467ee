"""What a soak tells, and draws."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from rich.console import Console

from soak.check import Verdict
from soak.figures import Moment
from soak.plot import write_plot
from soak.report import show, write_json
from soak.run import Happened, Refusals, Soaked


def happened(back: float | None, *, prompt: bool = False) -> Happened:
    return Happened("restart_fast", "", began=2.0, hit=3.0, over=3.0, struck=1, back=back, refused=4, prompt=prompt)


@pytest.fixture
def soaked() -> Soaked:
    moments = [Moment(0.0, 20, 0, 0.01, 0.2), Moment(0.5, 0, 4, None, None), Moment(1.0, 30, 0, 0.5, 30.0)]
    return Soaked(
        "redis",
        seed=5,
        offered=40,
        usual=40,
        seconds=1.5,
        moments=moments,
        happened=[happened(1.5, prompt=True)],
        refusals={"OSError": Refusals("OSError: no <luck>", 4)},
        left_out={"disk_full": "not allowed"},
        verdict=Verdict(jobs=50, operations=300, unanswered=7),
    )


def told(soaked: Soaked) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        show(soaked, console)
    return captured.get()


@pytest.mark.parametrize(
    ("back", "prompt", "held"),
    [(0.0, True, True), (10.0, True, True), (10.1, True, False), (None, True, False), (None, False, True)],
)
def test_work_must_go_on_within_ten_seconds_where_that_is_promised(
    back: float | None, *, prompt: bool, held: bool
) -> None:
    each = happened(back, prompt=prompt)
    assert each.held is held
    assert Soaked("s", 0, 40, happened=[happened(0.0, prompt=True), each]).prompt is held


def test_a_soak_that_went_well(soaked: Soaked) -> None:
    text = told(soaked)
    assert "nothing acknowledged was lost" in text
    assert "1.5 s │ ≤ 10 s" in text
    assert "50 jobs, 300 operations (7 unanswered)" in text
    assert "refused 4 ×: OSError: no <luck>" in text
    assert "left out: disk_full: not allowed" in text
    assert "BROKEN" not in text


def test_a_soak_that_did_not(soaked: Soaked) -> None:
    soaked.verdict.problems.append("acknowledged and lost: 1: [job]")
    soaked.happened = [happened(None, prompt=True)]
    text = told(soaked)
    assert "BROKEN: acknowledged and lost: 1: [job]" in text
    assert "never │ > 10 s" in text
    assert "nothing acknowledged was lost" not in text


def test_all_of_it_is_in_the_file(soaked: Soaked, tmp_path: Path) -> None:
    write_json([soaked, soaked], tmp_path / "out.json")
    first, second = json.loads((tmp_path / "out.json").read_text())["soaks"]
    assert first == second
    assert (first["ok"], first["prompt"], first["stage"], first["seed"]) == (True, True, "redis", 5)
    assert [moment["ended"] for moment in first["moments"]] == [20, 0, 30]
    assert first["happened"][0]["fault"] == "restart_fast"


def test_no_line_is_drawn_over_what_is_not_known(soaked: Soaked, tmp_path: Path) -> None:
    write_plot([soaked], tmp_path / "out.svg")
    drawn = ET.parse(tmp_path / "out.svg").getroot()
    lines = [line.attrib["points"].split() for line in drawn.findall(".//{*}polyline")]
    assert [len(line) for line in lines] == [3, 2, 2, 2, 2], "throughput, then p50 and p95 before and after, as dots"
    assert len(drawn.findall(".//{*}circle")) == 1, "where producers were refused"
    assert len(drawn.findall(".//{*}rect")) == 2, "the paper and the fault"
    assert any(text.text == "restart_fast" for text in drawn.findall(".//{*}text"))


def test_what_ended_before_anything_happened_can_be_drawn(tmp_path: Path) -> None:
    write_plot([Soaked("sqlite", 0, 40, moments=[Moment(0.0, 0, 0, None, None)])], tmp_path / "out.svg")
    assert ET.parse(tmp_path / "out.svg").getroot().tag.endswith("svg")
