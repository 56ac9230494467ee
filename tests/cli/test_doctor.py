"""``dibs doctor`` as a user meets it, and each finding made real on SQLite."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import pytest

import dibs
from dibs.clock import Clock, FakeClock
from dibs.domain.finding import Finding, Level, exit_code, failure, ok, warning, worst
from dibs.stores.memory import MemoryStore
from dibs.stores.sqlite import SqliteStore, examining
from tests.servers.databases import bare_mysql, bare_postgres, empty_mysql, empty_postgres


def run(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "DIBS_STORE"} | {"COLUMNS": "200"}
    command = [sys.executable, "-c", "from dibs.cli import main; main()", "doctor", *args]
    return subprocess.run(command, check=False, cwd=cwd, env=environment, capture_output=True, text=True, timeout=50)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.db"
    with dibs.App(f"sqlite:///{path}").sync as app:
        app.enqueue("t")
    return path


def findings(path: Path, clock: Clock | None = None) -> dict[str, Finding]:
    found = asyncio.run(SqliteStore(path, clock or Clock()).examine())
    return {finding.code: finding for finding in found}


def levels(found: dict[str, Finding]) -> dict[str, Level]:
    return {code: finding.level for code, finding in found.items() if finding.level is not Level.OK}


# The command


def test_a_file_that_is_well(file: Path) -> None:
    done = run("--store", f"sqlite:///{file}", cwd=file.parent)
    assert done.returncode == 0, done.stderr
    assert "0 failures, 0 warnings" in done.stdout
    assert str(file) in done.stdout


def test_json_for_scripts(file: Path) -> None:
    done = run("--store", f"sqlite:///{file}", "--json", cwd=file.parent)
    told = json.loads(done.stdout)
    assert (told["ok"], told["worst"]) == (True, "ok")
    assert {"reachable", "version", "schema", "permissions", "file_system", "space", "journal", "wal", "clock"} <= {
        finding["code"] for finding in told["findings"]
    }


@pytest.mark.parametrize(
    ("store", "code", "words"),
    [
        ("sqlite:///none.db", 5, "no file"),
        ("nonsense", 2, "url"),
        ("postgresql://nobody@127.0.0.1:1/none", 8, "reachable"),
        ("mysql://nobody@127.0.0.1:1/none", 8, "reachable"),
    ],
)
def test_a_store_that_is_not_there(store: str, code: int, words: str, tmp_path: Path) -> None:
    done = run("--store", store, cwd=tmp_path)
    assert done.returncode == code
    assert words in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == [], "nothing is made by looking"


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "jobs.db").write_text("these are not jobs" * 100)
    done = run("--store", "sqlite:///jobs.db", "--json", cwd=tmp_path)
    assert done.returncode == 8
    assert json.loads(done.stdout)["findings"][0]["code"] == "reachable"


@pytest.mark.parametrize("bare", [bare_postgres, bare_mysql])
def test_a_database_without_tables_says_how_to_get_them(bare: Callable[[str], str], tmp_path: Path) -> None:
    done = run("--store", bare("doctor"), cwd=tmp_path)
    assert done.returncode == 8
    assert "dibs migrate" in done.stdout


def test_a_database_that_is_well_but_for_this_server_s_fsync(tmp_path: Path) -> None:
    done = run("--store", empty_postgres(), "--json", cwd=tmp_path)
    told = {finding["code"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert told["fsync"]["level"] == "failure", "the tests' server is quick, and says so"
    assert "ALTER SYSTEM" in told["fsync"]["fix"]
    assert [code for code, finding in told.items() if finding["level"] == "failure"] == ["fsync"]
    assert done.returncode == 1


def test_a_database_that_is_well_but_for_how_quick_this_server_is(tmp_path: Path) -> None:
    done = run("--store", empty_mysql(), cwd=tmp_path)
    assert "0 failures, 2 warnings" in done.stdout
    assert "SET GLOBAL innodb_flush_log_at_trx_commit = 1" in done.stdout
    assert done.returncode == 0


def test_a_store_that_has_nothing_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    from dibs.cli import doctor

    assert asyncio.run(doctor.examine("memory://"))[0].level is Level.OK
    assert not hasattr(MemoryStore, "examine")


def test_what_it_ends_with() -> None:
    well, bad, broken = ok("a", "x"), warning("b", "x", "y"), failure("c", "x", "y")
    assert [exit_code([well]), exit_code([well, bad]), exit_code([bad, broken])] == [0, 0, 1]
    assert exit_code([failure("schema", "x", "y"), broken]) == 8
    assert [worst([well]), worst([well, bad]), worst([broken, bad])] == ["ok", "warning", "failure"]


# What may be wrong with a file


def test_all_is_well_with_a_new_file(file: Path) -> None:
    assert levels(findings(file)) == {}


def test_a_library_that_is_too_old(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dibs.cli import doctor

    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.40.1")
    [finding] = asyncio.run(doctor.examine(f"sqlite:///{file}"))
    assert (finding.code, finding.level) == ("version", Level.FAILURE)
    assert "3.40.1" in finding.message
    assert "apsw" in finding.fix


def test_a_schema_of_another_time(file: Path) -> None:
    with apsw.Connection(str(file)) as connection:
        connection.execute("UPDATE dibs_migration SET version = 9999, name = '9999_later.sql'")
    assert levels(findings(file)) == {"schema": Level.WARNING}
    with apsw.Connection(str(file)) as connection:
        connection.execute("UPDATE dibs_migration SET name = '9999_later.breaking.sql'")
    assert levels(findings(file)) == {"schema": Level.FAILURE}
    with apsw.Connection(str(file)) as connection:
        connection.execute("DELETE FROM dibs_migration")
    assert levels(findings(file)) == {"schema": Level.WARNING}


def test_a_journal_that_was_switched(file: Path) -> None:
    connection = apsw.Connection(str(file))
    connection.pragma("journal_mode", "DELETE")
    connection.close()
    assert levels(findings(file)) == {"journal": Level.WARNING}


def test_someone_who_keeps_the_write_lock(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examining, "LOCK_MS", 50)
    holder = apsw.Connection(str(file))
    holder.execute("BEGIN IMMEDIATE")
    assert levels(findings(file)) == {"lock": Level.WARNING}
    holder.close()


def test_a_reader_who_keeps_a_snapshot(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examining, "LARGE_WAL", 200_000)
    reader = apsw.Connection(str(file))
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM dibs_job").fetchall()
    with dibs.App(f"sqlite:///{file}").sync as app:
        app.enqueue_many([dibs.NewJob("t", "x" * 1000) for _ in range(300)])
    assert levels(findings(file)) == {"wal": Level.WARNING}
    reader.close()


def test_little_room(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examining, "LITTLE_FREE", 2**60)
    assert levels(findings(file)) == {"space": Level.WARNING}
    monkeypatch.setattr(examining, "LEAST_FREE", 2**60)
    assert levels(findings(file)) == {"space": Level.FAILURE}


def test_a_clock_that_was_set_back(file: Path) -> None:
    with dibs.App(f"sqlite:///{file}", clock=ahead(3600)).sync as app:
        app.enqueue("t")
    found = findings(file)
    assert levels(found) == {"clock": Level.WARNING}
    assert "3600 s" in found["clock"].message or "3599 s" in found["clock"].message


def ahead(seconds: float) -> FakeClock:
    clock = FakeClock()
    clock.advance(Clock().now() / 1e6 - clock.now() / 1e6 + seconds)
    return clock


def test_claims_and_jobs_that_no_one_looks_after(file: Path) -> None:
    with dibs.App(f"sqlite:///{file}", retention=1).sync as app:
        app.enqueue_many([dibs.NewJob("t"), dibs.NewJob("t")])
        first, second, third = app.claim_many("gone", limit=3, lease=1)
        second.complete()
        third.complete()
    found = findings(file, ahead(4000))
    assert levels(found) == {"leases": Level.WARNING, "retention": Level.WARNING}
    assert found["leases"].message.startswith("1 claims")
    assert first.id


def test_a_network_file_system() -> None:
    """There is none here to be mounted: the system's own table says which one a folder is on."""
    mounts = r"""/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/me/disk\040two xfs rw 0 0
tmpfs /run tmpfs rw 0 0"""
    kinds = [examining.kind_of(Path(place), mounts) for place in ("/var", "/home/me", "/home/me/disk two/x", "/run")]
    assert kinds == ["ext4", "nfs4", "xfs", "tmpfs"]
    assert "nfs4" in examining.ELSEWHERE


def test_a_file_on_a_network_file_system_is_a_failure(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "mounts"
    table.write_text(f"/dev/sda1 / ext4 rw 0 0\nserver:/x {tmp_path.resolve()} nfs rw 0 0\n")
    monkeypatch.setattr(examining, "MOUNTS", table)
    assert levels(findings(file)) == {"file_system": Level.FAILURE}


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that other users can reach."""
    with TemporaryDirectory(prefix="dibs-doctor-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with dibs.App(f"sqlite:///{folder}/jobs.db").sync as app:
            app.enqueue("t")
        yield folder


@pytest.mark.parametrize(
    ("folder_mode", "file_mode", "expected"),
    [
        (0o755, 0o600, {"reachable": "failure", "permissions": "failure"}),
        (0o755, 0o644, {"reachable": "failure", "permissions": "failure"}),  # a WAL has to be written even to be read
        (0o755, 0o666, {"reachable": "failure", "permissions": "failure"}),
        (0o777, 0o666, {}),
    ],
)
def test_permissions(shared: Path, folder_mode: int, file_mode: int, expected: dict[str, str]) -> None:
    shared.chmod(folder_mode)
    (shared / "jobs.db").chmod(file_mode)
    found = as_nobody(shared / "jobs.db")
    assert {code: level for code, level in found.items() if code in {"reachable", "permissions"} and level != "ok"} == (
        expected
    )


def as_nobody(path: Path) -> dict[str, str]:
    """Examine as a user who owns nothing here: root may do everything, whatever the modes say."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            found = examining.examine(str(path), Clock())
            os.write(write, json.dumps({finding.code: finding.level for finding in found}).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        told: dict[str, str] = json.loads(answer.read())
    os.waitpid(pid, 0)
    return told
