"""Tables that fit, and texts that cannot steer a terminal."""

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dibs.cli.errors import Groups, alike
from dibs.cli.output import Cell, Column, Painted, ago, clean, print_json_lines, span, table_lines
from dibs.domain.job import Error
from dibs.testing.conformance.builders import new_job

COLUMNS = (Column("ID", whole=True), Column("NUMBER", right=True), Column("TEXT"))
ESCAPE = re.compile(r"\x1b\[[0-9]*m")


def cells(text: str) -> int:
    from rich.cells import cell_len  # another's count of the same

    return cell_len(text)


@given(
    st.lists(st.tuples(st.text("0a-", min_size=1, max_size=40), st.integers(), st.text(max_size=60)), min_size=1),
    st.integers(20, 160),
)
def test_no_line_is_wider_than_the_terminal(rows: list[tuple[str, int, str]], width: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        made = list(table_lines(COLUMNS, ([id, str(number), clean(text)] for id, number, text in rows)))
    assert len(made) == len(rows) + 1
    assert [line for line in made if min(len(line), cells(line)) > width] == []  # a mark on a letter has no cell


def test_wide_letters_count_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    [_, line] = table_lines(COLUMNS, [["id", "1", "漢字" * 20]])
    assert cells(line) <= 30
    assert line.endswith("…")


def test_nothing_is_cut_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    [_, line] = table_lines(COLUMNS, [["id", "1", "x" * 500]])
    assert line.endswith("x" * 500)


def test_rows_come_out_before_all_have_come_in() -> None:
    taken = 0

    def rows() -> Iterator[list[str]]:
        nonlocal taken
        while True:
            taken += 1
            yield ["id", "1", "text"]

    made = table_lines(COLUMNS, rows())
    next(made)
    next(made)
    assert taken <= 201, "as many as are needed to know how wide the columns are"


def test_json_lines_are_counted_as_they_go(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_json_lines(iter([{"a": 1}, {"a": "ü"}])) == 2
    assert capsys.readouterr().out == '{"a":1}\n{"a":"ü"}\n'


@given(st.text())
def test_what_others_wrote_cannot_steer_the_terminal(text: str) -> None:
    shown = clean(text)
    assert shown.isprintable()
    assert "\n" not in shown


def test_what_is_shown_of_an_escape() -> None:
    assert clean("a\x1b[31mred\x07\nb\u202ec") == r"a\x1b[31mred\x07 b\u202ec"
    assert clean("grün 漢字") == "grün 漢字"


def test_colours_are_only_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[list[Cell]] = [["id", "1", Painted("red", "red")]]
    assert not any(ESCAPE.search(line) for line in table_lines(COLUMNS, rows))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert all(ESCAPE.search(line) for line in table_lines(COLUMNS, rows))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not any(ESCAPE.search(line) for line in table_lines(COLUMNS, rows))


def test_how_long() -> None:
    assert [span(seconds) for seconds in (0, 0.4, 59, 60, 3599, 7300, 200_000)] == [
        "0s",
        "0s",
        "59s",
        "1m",
        "59m",
        "2h",
        "2d",
    ]
    assert (ago(None, 5), ago(0, 61_000_000), ago(61_000_000, 0)) == ("", "1m ago", "in 1m")


# Dead letters that are alike


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("no user 42", "no user 7", True),
        ("at 0x7f00aa", "at 0xdeadbeef", True),
        ("job 01a1e2fc-7583-7699-8045-c9414cf5e23d", "job 01a1e2fc-7583-70db-a974-72ab754f7856", True),
        ("took 1.5 s", "took 30 s", True),
        ("no user", "no group", False),
        ("utf8", "utf16", False),  # a word with a number in it is a word
    ],
)
def test_errors_that_differ_in_numbers_are_alike(one: str, other: str, same: bool) -> None:
    assert (alike(one) == alike(other)) is same


def test_groups_do_not_fill_the_memory() -> None:
    import msgspec

    job = new_job().job(0)
    words = (f"{chr(97 + n % 26)}{chr(97 + n // 26 % 26)}{chr(97 + n // 676)}" for n in range(1500))
    groups = Groups()
    groups.add(msgspec.structs.replace(job, error=Error(word, "E")) for word in words)
    found = groups.biggest()
    assert len(found) == 1001
    assert (found[0].kind, found[0].jobs) == ("other errors", 500)
    assert groups.jobs == 1500
