"""Every Python snippet of the README and the docs is run, page by page, as a reader would run them in turn."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.databases import bare_mysql, bare_postgres

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```console\n(?P<session>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#]+)(#[^)]*)?\)")


def snippets(page: Path) -> str:
    return "\n".join(SNIPPET.findall(page.read_text()))


@pytest.mark.parametrize("page", [p for p in PAGES if snippets(p)], ids=lambda page: page.stem)
def test_snippets_run(page: Path, tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text(snippets(page))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    if "DATABASE_URL" in snippets(page):
        environment["DATABASE_URL"] = bare_postgres("docs")
    if "MYSQL_URL" in snippets(page):
        environment["MYSQL_URL"] = bare_mysql("docs")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        check=False,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    targets = [target for target, _ in LINK.findall(page.read_text()) if "://" not in target]
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


def test_the_workers_of_the_page_run(tmp_path: Path) -> None:
    """The first snippet is the module, the second enqueues, and the command lines are the reader's own."""
    page = (ROOT / "docs" / "how-to" / "run-a-worker.md").read_text()
    define, produce, *_ = SNIPPET.findall(page)
    (tmp_path / "shop.py").write_text(define)
    (tmp_path / "produce.py").write_text("from shop import *\n" + produce)
    everything, by_weight = re.findall(r"^dibs (worker shop:app .*)$", page, re.MULTILINE)
    subprocess.run([sys.executable, "produce.py"], check=True, cwd=tmp_path, timeout=50)
    for command, said in ((by_weight, "mailing a@example.org hi under fence 1"), (everything, "")):
        dibs = [sys.executable, "-m", "dibs", *command.split(), "--until-idle"]
        done = subprocess.run(dibs, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=50)
        assert done.returncode == 0, done.stderr
        assert said in done.stdout


@pytest.mark.timeout(180)
def test_the_dead_letters_of_the_page_come_and_go(tmp_path: Path) -> None:
    """A newcomer types what the page says, in turn, and sees what it shows; … stands for what differs each time."""
    page = (ROOT / "docs" / "how-to" / "deal-with-dead-letters.md").read_text()
    broken, mended = SNIPPET.findall(page)
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    environment |= {"DIBS_STORE": "sqlite:///jobs.db"}
    typed = 0
    for at in CONSOLE.finditer(page):
        (tmp_path / "shop.py").write_text(broken if at.start() < page.index("## Mend it") else mended)
        typed += _type(at["session"], tmp_path, environment)
    assert typed == 12


@pytest.mark.timeout(180)
def test_the_move_of_the_page_is_made(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "move-to-another-store.md").read_text()
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    environment |= {"TO": bare_postgres("docs_copy")}
    assert sum(_type(at["session"], tmp_path, environment) for at in CONSOLE.finditer(page)) == 8


def test_the_upgrade_of_the_page_is_made(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "upgrade.md").read_text()
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    environment |= {"DB": bare_mysql("docs_upgrade")}
    assert sum(_type(at["session"], tmp_path, environment) for at in CONSOLE.finditer(page)) == 3


def _type(session: str, folder: Path, environment: dict[str, str]) -> int:
    """Type what a session of a page says, and see what it shows; say how many commands there were."""
    typed = 0
    for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", session, re.MULTILINE):
        if command.startswith("export "):
            assert command == "export DIBS_STORE=sqlite:///jobs.db"
            continue
        script = f'dibs() {{ {sys.executable} -m dibs "$@" 2>&1; }}; {command}'
        done = subprocess.run(
            ["bash", "-c", script], check=False, cwd=folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, (command, done.stdout)
        assert re.fullmatch(_as_pattern(shown), " ".join(done.stdout.split())), (command, done.stdout)
        typed += 1
    return typed


def _as_pattern(shown: str) -> str:
    return " ".join(".*" if word == "…" else re.escape(word) for word in shown.split())
