"""What is said of an app that cannot be imported."""

from pathlib import Path

import pytest

from dibs.cli.commands import run


def broken(folder: Path, name: str, text: str) -> str:
    (folder / f"{name}.py").write_text(text)
    return f"{name}:app"


def test_a_module_that_is_broken_is_shown_from_its_own_lines_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    broken(tmp_path, "inner_of_broken", "def go():\n    return 1 / 0\n")
    target = broken(tmp_path, "outer_of_broken", "import inner_of_broken\ninner_of_broken.go()\n")
    assert run(["worker", target]) == 2
    said = capsys.readouterr().err
    assert "importing 'outer_of_broken' failed: ZeroDivisionError: division by zero" in said
    assert "outer_of_broken.py" in said
    assert "return 1 / 0" in said
    assert "importlib" not in said
    assert "dibs/cli" not in said


@pytest.mark.parametrize(
    ("text", "told"),
    [("import nowhere_at_all", "ModuleNotFoundError: No module named 'nowhere_at_all'"), ("def :", "SyntaxError")],
)
def test_whatever_is_wrong_is_named(
    text: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    name = f"broken_by_{told[:6].lower()}"
    assert run(["worker", broken(tmp_path, name, text)]) == 2
    assert f"app: importing {name!r} failed: {told}" in capsys.readouterr().err
