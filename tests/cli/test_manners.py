"""How the commands behave among others: pipes, terminals, Ctrl-C, mistakes."""

import io
import re
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import dibs
from dibs.cli.commands import run
from tests.cli.running import DIBS, PATIENCE, Place

Said = Callable[..., str]

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")

pytestmark = pytest.mark.timeout(150)  # processes, one after another, on a machine that may have others


@pytest.fixture
def many(file: Place) -> Place:
    """Three thousand jobs, of which a thousand have failed."""
    with dibs.App(file.url).sync as app:
        for _ in range(3):
            app.enqueue_many([dibs.NewJob("bulk", {"n": n}, max_attempts=1) for n in range(1000)])
        for claim in app.claim_many("w", limit=1000):
            claim.fail(dibs.Error("no \x1b[31mroom\x07", "OSError"))
    return file


# Mistakes


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        ("retry x", 2, "dibs redrive"),
        ("qeues", 2, "dibs queues"),
        ("zzz", 2, "dibs --help"),
        ("jobs --quue a", 2, "--queue"),
        ("jobs --status fail", 2, "failed"),
        ("jobs --limit 0", 2, "--all"),
        ("jobs --limit many", 2, "--limit"),
        ("log", 2, "dibs log --help"),
        ("log a b", 2, "b"),
        ("redrive", 2, "--all"),
        ("redrive some --all", 2, "not both"),
        ("purge --all", 2, "--yes"),
        ("top --interval 0", 2, "interval"),
        ("enqueue", 2, "name a task"),
        ("enqueue t hello", 2, "quotes"),
        ('enqueue t {"a":1,"a":2}', 2, "params"),
        ("enqueue t --scheduled-at tomorrow", 2, "2030-01-31"),
        ("enqueue t --lines x", 2, "own task"),
        ("enqueue --lines none.jsonl", 2, "none.jsonl"),
        ("enqueue bad~name", 2, "task"),
        ("cancel", 2, "id"),
        ("pause", 2, "queue"),
        ("jobs --store nonsense", 2, "url"),
        ("jobs --api-key k", 2, "api_key"),
        ("jobs --store http://127.0.0.1:1", 8, "127.0.0.1:1"),
        ("jobs --store sqlite:///typo.db", 5, "typo.db"),
        ("complete x --fence 1 --lease-token t", 4, "has ended"),
        ("complete x --fence 1 --lease-token -t", 4, "has ended"),  # one token in sixty-four begins so
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(args: str, code: int, words: str, said: Said) -> None:
    line = said(*args.split(), code=code)
    assert words in line
    assert len(line.splitlines()) == 1, line
    assert line.startswith("dibs: ")


@pytest.fixture(scope="module")
def one_job(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A job that failed: nothing in these tests may change it."""
    folder: Path = tmp_path_factory.mktemp("one")
    place = Place(folder, f"sqlite:///{folder}/jobs.db")
    with dibs.App(place.url).sync as app:
        app.enqueue("t", id="job-one", queue="mail", max_attempts=1)
        app.claim("w").fail("no")  # type: ignore[union-attr]
    return place


@pytest.fixture
def said(one_job: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Run a command in this process, as a process each would take a minute; and give what it complains of."""
    monkeypatch.setenv("DIBS_STORE", one_job.url)
    monkeypatch.delenv("DIBS_API_KEY", raising=False)
    monkeypatch.chdir(one_job.folder)
    monkeypatch.setattr("sys.stdin", io.StringIO())

    def say(*args: str, code: int = 0) -> str:
        ended = run(list(args))
        heard = capsys.readouterr().err
        assert ended == code, heard
        return heard

    return say


def test_a_mistake_as_a_process_ends_with_the_code_of_its_error(one_job: Place) -> None:
    assert "dibs redrive" in one_job.dibs("retry", "x", code=2).stderr
    assert "Did you mean job-one?" in one_job.dibs("log", "job-oen", code=5).stderr


def test_an_id_that_is_nearly_right(said: Said) -> None:
    for command in ("log", "explain", "jobs", "cancel", "redrive", "purge", "claim"):
        assert "Did you mean job-one?" in said(command, "job-oen", code=5)
    assert "Did you mean job-one?" in said("log", "job-", code=5), "a beginning is enough"
    assert "Did you mean" not in said("log", "quite-another", code=5)


def test_a_queue_that_is_nearly_right(said: Said) -> None:
    for args in (["jobs", "--queue", "mial"], ["dead", "--queue", "mial"], ["redrive", "--queue", "mial", "--yes"]):
        assert "did you mean mail?" in said(*args)
    assert "did you mean mail?" in said("queues", "mial", code=5)
    assert "did you mean mail?" in said("resume", "mial", code=5)


# Pipes


@pytest.mark.parametrize("args", [["jobs", "--all"], ["jobs", "--all", "--json"], ["--help"]])
def test_a_pipe_that_is_closed_ends_it_quietly(args: list[str], many: Place) -> None:
    process = subprocess.Popen(
        [*DIBS, *args],
        cwd=many.folder,
        env={**many.environment, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(PATIENCE), said) == (141, b"")


def test_a_pipe_gets_every_row_whole_and_plain(many: Place) -> None:
    rows = many.dibs("jobs", "--all", env={"TERM": "xterm"}).stdout.splitlines()
    assert len(rows) == 3001
    assert not any(ESCAPE.search(row) or "…" in row for row in rows)
    few = many.dibs("jobs")
    assert len(few.stdout.splitlines()) == 51
    assert "there are more" in few.stderr


def test_a_long_list_begins_before_it_is_read_to_its_end(many: Place) -> None:
    """The second page is read from a file in which there is nothing any more: what was printed came before."""
    with subprocess.Popen(
        [*DIBS, "jobs", "--all", "--json"], cwd=many.folder, env=many.environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        with dibs.App(many.url).sync as app:
            waiting = [job.id for job in app.find(status="pending", limit=1000)]
            assert app.cancel(*waiting).changed == 2000
            app.purge(where=dibs.Filter(status=["failed", "cancelled"]))
        rest = process.stdout.read().splitlines()
    assert process.returncode == 0
    assert '"task_type":"bulk"' in first
    assert len(rest) < 2999


# Ctrl-C


@pytest.mark.parametrize("args", [["claim", "--wait", "40", "--queue", "none"], ["enqueue", "--lines", "-"]])
def test_ctrl_c_ends_it_quietly(args: list[str], many: Place) -> None:
    with subprocess.Popen(
        [*DIBS, *args],
        cwd=many.folder,
        env=many.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        wal = Path(f"/proc/{process.pid}/fd")
        end_of_start(wal, "jobs.db" if args[0] == "claim" else "", process)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)
    assert (process.returncode, said) == (130, b"")


def end_of_start(files: Path, name: str, process: "subprocess.Popen[bytes]") -> None:
    """Wait until the command has opened the store, or else has loaded what it needs for that."""
    import time

    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        assert process.poll() is None
        maps = Path(f"/proc/{process.pid}/maps").read_text()
        with suppress(FileNotFoundError):  # closed between two looks
            if name and any(name in str(link.readlink()) for link in files.iterdir() if link.is_symlink()):
                return
        if not name and "msgspec" in maps:
            return
        time.sleep(0.01)  # between two looks at another process, which has no way to tell
    raise AssertionError(name)


def test_ctrl_c_ends_a_redrive_between_two_steps_and_tells_how_far_it_came(file: Place) -> None:
    with dibs.App(file.url).sync as app:
        for _ in range(10):
            made = app.enqueue_many([dibs.NewJob("bulk") for _ in range(1000)])
            app.cancel(*(job.id for job in made))
    begun = file.terminal("redrive", "--status", "cancelled", "--all", "--yes")
    begun.until("/10000")
    begun.interrupt()
    assert begun.end() == 130
    assert "Traceback" not in begun.seen
    [told] = re.findall(r"interrupted: redriven ([0-9,]+) so far", begun.seen)
    with dibs.App(file.url).sync as app:
        counts = app.counts()
        assert app.verify().ok
    assert counts.pending + counts.cancelled == 10_000
    assert counts.cancelled > 0
    # Race: interrupted after a step was written and before it was counted.
    assert counts.pending - int(told.replace(",", "")) in {0, 500}


# Terminals


def test_a_preview_and_a_question_before_many_are_changed(many: Place) -> None:
    no = many.terminal("redrive", "--task", "bulk", columns=120)
    no.until("Redrive 1,000 jobs? [y/N]")
    assert "OSError" in no.seen
    assert r"no \x1b[31mroom\x07" in no.seen, "what a handler wrote does not colour this terminal"
    no.type("n\n")
    assert no.end() == 0
    assert "nothing was done" in no.seen
    assert many.json("queues")[0]["counts"]["failed"] == 1000

    yes = many.terminal("purge", "--task", "bulk")
    yes.until("Purge 1,000 jobs? [y/N]")
    yes.type("y\n")
    assert yes.end() == 0
    assert "purged 1,000" in yes.seen
    assert many.json("queues")[0]["counts"]["failed"] == 0


def test_a_bar_shows_how_far_it_has_come_on_a_terminal_only(many: Place) -> None:
    shown = many.terminal("redrive", "--all", "--yes")
    assert shown.end() == 0
    assert "1000/1000" in shown.seen
    assert "redriven 1,000" in shown.seen
    assert many.dibs("purge", "--status", "completed", "--all", "--yes").stderr == "dibs: no job matches\n"


def test_colours_and_width_of_a_terminal(many: Place) -> None:
    coloured = many.terminal("jobs", "--status", "failed", "--limit", "3", columns=90)
    assert coloured.end() == 0
    assert ESCAPE.search(coloured.seen)
    lines = ESCAPE.sub("", coloured.seen).splitlines()
    assert max(map(len, lines[:4])) <= 90
    plain = many.terminal("jobs", "--limit", "3", env={"NO_COLOR": "1"})
    assert plain.end() == 0
    assert not ESCAPE.search(plain.seen)


def test_top_fills_the_screen_until_ctrl_c_and_leaves_it_as_it_was(many: Place) -> None:
    top = many.terminal("top", "--interval", "0.1")
    top.until("2,000 pending")
    with dibs.App(many.url).sync as app:
        app.enqueue("t", queue="quite-new")
    top.until("quite-new")
    top.interrupt()
    assert top.end() == 130
    assert top.seen.count("\x1b[?1049h") == top.seen.count("\x1b[?1049l") == 1
    assert "Traceback" not in top.seen


def test_top_into_a_pipe(many: Place) -> None:
    once = many.dibs("top").stdout
    assert once.startswith("2,000 pending")
    assert "\x1b" not in once
    looks = many.json("top", "--looks", "2", "--interval", "0.1")
    assert [look["counts"]["failed"] for look in looks] == [1000, 1000]
    assert (looks[0]["finished_per_second"], looks[1]["finished_per_second"]) == (None, 0)
