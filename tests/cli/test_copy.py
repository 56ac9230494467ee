"""``dibs copy`` as a user meets it; what it does, and that it can be killed, is in ``tests/copying``."""

import pytest

import dibs
from dibs.cli.commands import run
from tests.cli.running import Place


@pytest.fixture
def from_(file: Place) -> str:
    with dibs.App(file.url).sync as app:
        app.enqueue_many([dibs.NewJob("t", {"n": n}) for n in range(5)])
        with app.claim("w"):  # type: ignore[union-attr]
            pass
    return file.url


@pytest.fixture
def to(file: Place) -> str:
    return f"sqlite:///{file.folder}/new.db"


def test_copy_shows_a_bar_and_says_what_it_did(file: Place, from_: str, to: str) -> None:
    terminal = file.terminal("copy", from_, to)
    terminal.until("TO has taken over")
    assert terminal.end() == 0
    assert "copying and comparing" in terminal.seen
    assert "copied 5 jobs, with 7 events in the log; both stores were compared, and are alike" in terminal.seen
    assert len(file.json("jobs", "--store", to)) == 5


def test_copy_prints_json(from_: str, to: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["copy", from_, to, "--json"]) == 0
    assert capsys.readouterr().out == (
        '{"jobs":5,"events":7,"documents":0,"duplicates":0,"resumed":false,"later":false,"queues":["default"]}\n'
    )


def test_copy_again_says_that_there_is_nothing(from_: str, to: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(["copy", from_, to])
    assert run(["copy", from_, to]) == 0
    assert "nothing has come to FROM since it was copied" in capsys.readouterr().out
    run(["enqueue", "t", "--store", from_])
    assert run(["copy", from_, to]) == 0
    assert "copied 1 job that came to FROM since it was copied, with 1 event in the log" in capsys.readouterr().out


def test_copy_names_who_holds_a_job(from_: str, to: str, capsys: pytest.CaptureFixture[str]) -> None:
    with dibs.App(from_).sync as app:
        app.claim("ann-1")
    assert run(["copy", from_, to]) == 1
    said = capsys.readouterr().err
    assert "1 job is claimed in FROM" in said
    assert "by ann-1" in said
    assert "--wait" in said


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ("FROM http://localhost:8642", 2, "is a server, and this needs a store (Name the store that it serves.)"),
        ("http://localhost:8642 TO", 2, "is a server, and this needs a store (Name the store that it serves.)"),
        ("FROM memory://", 2, "to: what is in memory"),
        ("memory:// TO", 2, "from: what is in memory"),
        ("FROM oracle://x", 2, "names no store"),
        ("FROM FROM", 2, "to: is the same store as FROM"),
        ("sqlite:///missing.db TO", 5, "there is no file"),
        ("FROM TO --wait -1", 2, "wait: must be 0 seconds or more"),
        ("FROM", 2, "TO"),
    ],
)
def test_copy_says_what_is_wrong(file: Place, from_: str, given: str, code: int, said: str) -> None:
    words = given.replace("FROM", from_).replace("TO", f"sqlite:///{file.folder}/new.db").split()
    assert said in file.dibs("copy", *words, code=code).stderr


def test_what_was_copied_is_not_resumed_by_mistake(from_: str, to: str, capsys: pytest.CaptureFixture[str]) -> None:
    with dibs.App(from_).sync as app:
        waiting = app.enqueue("t")
    run(["copy", from_, to])
    capsys.readouterr()
    assert run(["explain", waiting.id, "--store", from_]) == 0
    assert "was copied to another store" in capsys.readouterr().out
    assert run(["resume", "default", "--store", from_]) == 1
    said = capsys.readouterr().err
    assert "another store, which hands out its jobs now" in said
    assert "--yes" in said
    assert run(["claim", "--store", from_]) == 3

    assert run(["resume", "default", "--yes", "--store", from_]) == 0
    assert run(["claim", "--store", from_]) == 0
