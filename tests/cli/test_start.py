"""``dibs --help`` is quick because it loads next to nothing, and right because what it says is checked here."""

import importlib
import inspect
import json
import re
import subprocess
import sys
from typing import Any, Literal

import cyclopts
import pytest

import dibs
from dibs.cli.commands import commands
from dibs.cli.table import COMMANDS, OTHER_WORDS, Entry
from tests.cli.running import DIBS, Place

LOADED = """
import sys
from dibs.cli import main
try:
    main({tokens})
finally:
    print(sorted(sys.modules), file=sys.stderr)
"""


def modules(code: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    names: set[str] = set(json.loads(done.stderr.replace("'", '"')))
    return names


def loaded(*tokens: str) -> set[str]:
    """Which modules a command loads, beyond what Python and ``typing`` do: tests may be watched by what loads more."""
    bare = modules("import sys, typing, importlib; print(sorted(sys.modules), file=sys.stderr)")
    return modules(LOADED.format(tokens=list(tokens))) - bare


@pytest.mark.parametrize("tokens", [["--help"], []])
def test_help_loads_next_to_nothing(tokens: list[str]) -> None:
    # Where the tests are measured, __future__ was there before.
    assert loaded(*tokens) - {"__future__"} == {"dibs", "dibs.cli", "dibs.cli.table"}


def test_a_command_loads_no_other() -> None:
    names = loaded("completion", "--help")
    assert {name for name in names if name.startswith("dibs.cli.")} == {
        "dibs.cli.commands",
        "dibs.cli.completion",
        "dibs.cli.table",
    }
    assert "dibs.app" not in names


def function_of(entry: Entry) -> Any:
    module, _, name = entry.home.partition(":")
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_the_table_says_what_the_commands_say(entry: Entry) -> None:
    found = function_of(entry)
    said = (found.help if isinstance(found, cyclopts.App) else inspect.getdoc(found)) or ""
    assert re.match(re.escape(entry.summary) + r"[.:,]", said), "the first words of the command itself"


def test_help_fits_a_terminal_and_names_every_command(file: Place) -> None:
    for tokens in ([], ["--help"]):
        said = file.dibs(*tokens).stdout
        assert max(map(len, said.splitlines())) <= 120
        assert set(re.findall(r"^  ([a-z]+) ", said, re.MULTILINE)) == {entry.name for entry in COMMANDS}


def test_other_words_lead_to_commands_and_are_none() -> None:
    names = {entry.name for entry in COMMANDS}
    assert set(OTHER_WORDS.values()) <= names
    assert set(OTHER_WORDS) & names == set()


def test_each_name_has_a_home() -> None:
    code = (
        "import dibs, json; before = set(vars(dibs)); "
        "print(json.dumps([name for name in dibs.__all__ if name != '__version__' and name in before])); "
        "[getattr(dibs, name) for name in dibs.__all__]; from dibs import *; App, LeaseLost, current, Worker"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [], "nothing is loaded before it is asked for"
    assert set(dibs.__all__) <= set(dir(dibs))
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = dibs.Nothing


def test_the_version(file: Place) -> None:
    assert file.dibs("--version").stdout.strip() == dibs.__version__


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_and_options(shell: Literal["bash", "zsh", "fish"], file: Place) -> None:
    script = file.dibs("completion", shell).stdout
    assert script.strip() == commands.generate_completion(shell=shell).strip()
    for word in ("redrive", "queues", "dry-run", "worker-id"):
        assert word in script


def test_completion_in_a_real_shell(file: Place) -> None:
    script = file.dibs("completion", "bash").stdout
    ask = """
COMP_WORDS=(dibs redr); COMP_CWORD=1; COMP_LINE="dibs redr"; COMP_POINT=9; _dibs; echo "${COMPREPLY[@]}"
COMP_WORDS=(dibs jobs --stat); COMP_CWORD=2; _dibs; echo "${COMPREPLY[@]}"
COMP_WORDS=(dibs jobs --status f); COMP_CWORD=3; _dibs; echo "${COMPREPLY[@]}"
"""
    done = subprocess.run(["bash", "-c", script + ask], capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout.split() == ["redrive", "--status", "failed"]


def test_without_the_packages_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['cyclopts'] = None; from dibs.cli import main; main(['jobs'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 1
    assert "pip install 'dibs-queue[cli]'" in done.stderr
    assert subprocess.run([*DIBS, "--help"], capture_output=True, timeout=50, check=False).returncode == 0
