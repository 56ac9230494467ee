"""What the project promises about its own files."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "dibs"
MODULES = sorted(PACKAGE.rglob("*.py"))
PINS = sorted((ROOT / "requirements").glob("*.txt"))


def imported(module: Path) -> Iterator[str]:
    """Yield the top-level package of each absolute import, wherever it stands in the file."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


def test_there_is_a_package() -> None:
    assert MODULES, "the tests below would pass on nothing"
    assert PINS, "as above"


def test_no_file_is_over_500_lines() -> None:
    files = [file for file in PACKAGE.rglob("*") if file.suffix in {".py", ".sql", ".lua"}]
    lengths = {str(file.relative_to(ROOT)): len(file.read_text(encoding="utf-8").splitlines()) for file in files}
    assert {name: length for name, length in lengths.items() if length > 500} == {}


def test_nothing_imports_sqlite3() -> None:
    assert [str(module.relative_to(ROOT)) for module in MODULES if "sqlite3" in imported(module)] == []


def test_domain_imports_msgspec_cronsim_and_the_standard_library_alone() -> None:
    allowed = {"cronsim", "dibs", "msgspec", *sys.stdlib_module_names}
    outside = {
        str(module.relative_to(ROOT)): names
        for module in (PACKAGE / "domain").rglob("*.py")
        if (names := sorted(set(imported(module)) - allowed))
    }
    assert outside == {}


@pytest.mark.parametrize("file", PINS, ids=lambda file: file.stem)
def test_pins_name_no_place(file: Path) -> None:
    pins = file.read_text(encoding="utf-8")
    assert "://" not in pins
    assert not re.search(r"^\s*(-i|-f|-e|--(extra-)?index-url|--find-links|--trusted-host)\b", pins, re.MULTILINE)
    assert not re.search(r"\s@\s", pins), "a requirement by address or path"


@pytest.mark.parametrize("file", PINS, ids=lambda file: file.stem)
def test_every_pin_is_exact_and_hashed(file: Path) -> None:
    pins = file.read_text(encoding="utf-8")
    text = re.sub(r"^\s*#.*\n", "", pins, flags=re.MULTILINE).replace("\\\n", " ")
    requirements = [line for line in text.splitlines() if line.strip()]
    assert requirements
    exact = re.compile(r"[a-z0-9._-]+==\S+ .*--hash=sha256:[0-9a-f]{64}")
    assert [line for line in requirements if not exact.match(line)] == []


@pytest.mark.parametrize("arguments", [[], ["help"], ["--help"]])
def test_dev_help_lists_the_commands(arguments: list[str], tmp_path: Path) -> None:
    run = subprocess.run([ROOT / "dev", *arguments], cwd=tmp_path, capture_output=True, text=True, check=True)
    listed = re.findall(r"^  ([a-z]+)", run.stdout, re.MULTILINE)
    assert {"demo", "test", "check", "fix", "bench", "pins", "help"} <= set(listed)


def test_dev_refuses_an_unknown_command() -> None:
    run = subprocess.run([ROOT / "dev", "dmeo"], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "dmeo" in run.stderr
