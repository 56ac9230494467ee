"""A short soak, on SQLite and PostgreSQL each time, elsewhere if asked for; ``./dev soak`` is the long one."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from soak.__main__ import main
from soak.disks import small_disk
from soak.faults import (
    EVERYWHERE,
    OF_A_CLOCK,
    OF_A_NETWORK,
    OF_A_SERVER,
    OF_A_STORES_NETWORK,
    OF_API_SERVERS,
    OF_THE_MACHINES_CLOCK,
    OWN,
    faults_of,
)
from soak.run import Soak
from soak.stages import NAMES, Stage, enter
from soak.subjects import Redis
from tests.chaos.crew import ROOT
from tests.servers import redis
from tests.servers.proxy import Proxy

SHORT: dict[str, tuple[str, ...]] = {
    "sqlite": ("kill_worker", "kill_producer", "held_lock"),
    "postgresql": ("kill_worker", "restart_immediate", "no_connections"),
    "mariadb": ("kill_worker", "restart_immediate", "no_connections"),
    "redis": ("kill_worker", "restart_immediate", "no_connections", "memory_full"),
    "cluster": ("kill_worker", "failover", "resharding"),
    "http": ("kill_server", "kill_worker", "restart_immediate", "reset"),
}
ALWAYS = ("sqlite", "postgresql")


def disk_full(store: str) -> tuple[str, ...]:
    """Tell whether that can happen here: only some may mount a file system."""
    with small_disk() as disk:
        return ("disk_full",) if disk is not None and store == "sqlite" else ()


def soak(store: str, folder: Path, faults: tuple[str, ...]) -> dict[str, Any]:
    command = [sys.executable, "-m", "soak", "--store", store, "--rounds", "1", "--quiet", "1"]
    files = ["--json", str(folder / "out.json"), "--plot", str(folder / "out.svg")]
    sizes = ["--rate", "20", "--seed", "7", "--faults", *faults]
    done = subprocess.run([*command, *files, *sizes], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing acknowledged was lost" in done.stdout
    [soaked] = json.loads((folder / "out.json").read_text())["soaks"]
    return dict(soaked)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "store", [pytest.param(name, marks=[] if name in ALWAYS else [pytest.mark.long]) for name in NAMES]
)
def test_a_short_soak(store: str, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    faults = SHORT[store] + disk_full(store)
    soaked = soak(store, tmp_path, faults)
    happened = soaked["happened"]
    record_property("back_after", {each["fault"]: each["back"] for each in happened})

    assert soaked["ok"]
    assert sorted(each["fault"] for each in happened) == sorted(faults)
    assert all(each["struck"] for each in happened)
    assert 100 < sum(moment["ended"] for moment in soaked["moments"]) <= soaked["verdict"]["jobs"]
    if store != "http":  # whose clients try again by themselves, for longer than that takes
        refused = {each["fault"] for each in happened if each["refused"]}
        assert refused >= {"restart_immediate", "no_connections", "memory_full"} & set(faults)
    drawn = ET.parse(tmp_path / "out.svg").getroot()
    assert len(drawn.findall(".//{*}rect")) == 1 + len(happened)


def names(stage: Stage) -> set[str]:
    return {fault.name for fault in faults_of(stage)}


def test_each_fault_has_a_name_of_its_own_and_says_what_it_does(tmp_path: Path) -> None:
    with enter("sqlite", tmp_path) as stage:
        faults = faults_of(stage)
        assert len({fault.name for fault in faults}) == len(faults)
        assert all(fault.about.endswith(".") for fault in faults)
        assert {"kill_worker", "stop_worker", "held_lock"} <= names(stage)
        assert not {"clock_ahead", "reset", "restart_fast", "kill_server"} & names(stage)
        assert ("disk_full" in names(stage)) != ("disk_full" in stage.left_out)


def test_the_reference_names_every_fault() -> None:
    told = (ROOT / "docs/reference/soak.md").read_text()
    groups = (EVERYWHERE, OF_A_CLOCK, OF_THE_MACHINES_CLOCK, OF_API_SERVERS, OF_A_SERVER, OF_A_NETWORK)
    every = {fault.name for group in (*groups, OF_A_STORES_NETWORK) for fault in group} | OWN.keys()
    assert [name for name in every if f"`{name}`" not in told] == []


def test_who_asks_for_what_cannot_happen_is_told_so(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "soak", "--store", "sqlite", "--faults", "failover"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "failover cannot happen on sqlite" in done.stderr
    assert "failover" in OWN


@pytest.mark.parametrize("wrong", [("--rounds", "0"), ("--seconds", "soon"), ("--rate", "-1"), ("--quiet", "nan")])
def test_what_is_no_number_is_refused(wrong: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["soak", *wrong])
    with pytest.raises(SystemExit) as refused:
        main()
    assert refused.value.code == 2


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.long
async def test_a_store_that_forgets_is_found_out(tmp_path: Path) -> None:
    """Redis that writes nothing to the disk, and crashes: if that were not noticed, nothing would be."""
    with redis.private() as server, Proxy("127.0.0.1", server.port) as proxy:
        subject = Redis(server)
        stage = Stage("redis", subject, [proxy.through(subject.url) + subject.options], proxy, subject)
        soak = Soak(stage, tmp_path, rate=20, seed=1, quiet=0.5, say=print)
        soaked = await soak.run(1, rounds=1, only=["restart_immediate"])
    assert not soaked.ok
    assert any(problem.startswith("acknowledged and lost: ") for problem in soaked.verdict.problems)
