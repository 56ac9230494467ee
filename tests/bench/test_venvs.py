"""A peer's environment: made from what is pinned and hashed, or there is no run."""

import subprocess
from pathlib import Path

import pytest

from bench.contenders import PEERS, POSTGRES_PEERS
from bench.venvs import PINS, NoPeer, check_pins, python_of

HASH = f"--hash=sha256:{'0' * 64}"


@pytest.mark.parametrize("peer", [peer.pins for peer in (*PEERS, *POSTGRES_PEERS)])
def test_the_peers_are_pinned(peer: str) -> None:
    check_pins(PINS / f"bench-{peer}.txt")


@pytest.mark.parametrize(
    "text",
    [
        "huey==3.5.4\n",
        f"huey>=3.5 {HASH}\n",
        f"huey==3.5.4 {HASH}\nother==1.0\n",
        f"--index-url somewhere\nhuey==3.5.4 {HASH}\n",
        f"huey @ file:///somewhere/huey.whl {HASH}\n",
        "-r other.txt\n",
        "# nothing\n",
        "",
    ],
)
def test_pins_without_hashes_or_with_a_place_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "bench-huey.txt").write_text(text)
    with pytest.raises(NoPeer, match=r"bench-huey\.txt"):
        python_of("huey", pins=tmp_path, home=tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_a_peer_without_pins_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoPeer, match="there is no"):
        python_of("huey", pins=tmp_path, home=tmp_path / "home")


@pytest.mark.slow
def test_a_peer_that_cannot_be_installed_is_an_error_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (tmp_path / "bench-absent.txt").write_text(f"no-such-queue==1.0 \\\n    {HASH}\n")
    for _ in range(2):
        with pytest.raises(NoPeer, match="absent could not be installed"):
            python_of("absent", pins=tmp_path, home=tmp_path / "home")


def test_an_environment_is_made_once_for_the_same_pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def call(command: tuple[str, ...], **_: object) -> subprocess.CompletedProcess[str]:
        made.append(command[2])
        (tmp_path / "home" / "a").mkdir(exist_ok=True)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", call)
    pins = tmp_path / "bench-a.txt"
    for text, calls in ((f"a==1 {HASH}\n", 2), (f"a==1 {HASH}\n", 2), (f"a==2 {HASH}\n", 4)):
        pins.write_text(text)
        assert python_of("a", pins=tmp_path, home=tmp_path / "home") == tmp_path / "home" / "a" / "bin" / "python"
        assert len(made) == calls
