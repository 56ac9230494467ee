"""What an upgrade rests on: steps that say whether they are in the way, and statements that do not mind additions."""

import re
from pathlib import Path

import pytest

import dibs
from dibs.domain.errors import SchemaOutdated
from dibs.stores.common.steps import Step, is_breaking, read_steps, standing

STORES = ("sqlite", "postgres", "mysql")
FOLDER = Path(dibs.__file__).parent / "stores"
OURS = [Step(1, "0001_initial.sql", ""), Step(2, "0002_more.sql", "")]


def taken(*names: str) -> list[tuple[int, str]]:
    return [(int(name[:4]), name) for name in names]


@pytest.mark.parametrize("store", STORES)
def test_each_step_says_what_it_is_and_is_named_so(store: str) -> None:
    """The name is what older ones go by, and the first line is what people read."""
    for number, step in enumerate(read_steps(f"dibs.stores.{store}"), 1):
        said = re.match(r"-- (\S+) · breaking: (yes|no) · locks: \S", step.text)
        assert said is not None, step.name
        assert said.group(1) == step.name
        assert step.breaking == (said.group(2) == "yes")
        assert step.version == number


def test_statements_name_the_columns_that_they_fill() -> None:
    """One that does not is refused as soon as a later dibs has added a column."""
    nameless = re.compile(r"INTO dibs_\w+( AS \w+)?\s+(VALUES|SELECT|WITH)\b")
    files = sorted(FOLDER.rglob("sql/*.sql"))
    assert [file for file in files if nameless.search(file.read_text())] == []
    assert len(files) > 100


def test_what_is_missing() -> None:
    assert standing([], OURS, "it").missing == OURS
    assert standing(taken("0001_initial.sql"), OURS, "it").missing == OURS[1:]
    assert standing(taken("0001_initial.sql", "0002_more.sql"), OURS, "it") == ([], "")


def test_what_is_ahead_of_us_is_used_unless_something_in_it_is_breaking() -> None:
    before = taken("0001_initial.sql", "0002_more.sql")
    found = standing([*before, *taken("0003_index.sql", "0004_column.sql")], OURS, "it")
    assert found == ([], "it has schema 4, this version of dibs knows 2")

    for later in (
        ["0003_anew.breaking.sql"],
        ["0003_anew.breaking.sql", "0004_column.sql"],
        ["0003_index.unheard_of.sql"],
    ):
        with pytest.raises(SchemaOutdated, match=r"has schema [34], this version of dibs knows 2") as caught:
            standing([*before, *taken(*later)], OURS, "it")
        assert "upgrade dibs" in caught.value.hint


def test_a_breaking_step_that_we_know_is_in_no_one_s_way() -> None:
    ours = [OURS[0], Step(2, "0002_anew.breaking.sql", "")]
    assert standing(taken("0001_initial.sql", "0002_anew.breaking.sql", "0003_index.sql"), ours, "it").missing == []
    assert is_breaking("0002_anew.breaking.sql")
    assert not is_breaking("0001_initial.sql")
