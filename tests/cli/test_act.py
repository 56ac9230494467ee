"""Enqueue, cancel, redrive, purge, pause: what they do, what they say, and to whom."""

import getpass
import json
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

import dibs
from tests.cli.running import Place
from tests.server.process import Serving

pytestmark = pytest.mark.timeout(150)


def jobs(place: Place) -> list[dibs.Job]:
    with dibs.App(place.url).sync as app:
        return list(app.find(limit=1000))


# Enqueue


def test_enqueue_takes_every_option(file: Place) -> None:
    options = (
        "--id j-1 --queue mail --priority -7 --delay 60 --max-attempts 9 --retry-base 2 --timeout 5 --lease 40 "
        "--retention 7 --idempotency-key k --unique-key u --batch b --tag x --tag y"
    )
    done = file.dibs("enqueue", "send", '{"to": "ä"}', *options.split())
    assert done.stdout == "j-1\n"
    [job] = jobs(file)
    assert (job.task, job.params, job.queue, job.priority, job.max_attempts) == ("send", {"to": "ä"}, "mail", -7, 9)
    assert (job.due_us - job.created_us) == 60_000_000
    assert (job.terms.retry, job.terms.timeout_us, job.terms.lease_us) == (
        dibs.Backoff(base=2, cap=3600.0),
        5_000_000,
        40_000_000,
    )
    assert (job.idempotency_key, job.unique_key, job.batch_id, job.tags) == ("k", "u", "b", ("x", "y"))
    assert job.keep.completed == 7_000_000

    again = file.dibs("enqueue", "send", '{"to": "ä"}', *options.split())
    assert again.stdout == "j-1\n"
    assert "it was there already" in again.stderr
    file.dibs("enqueue", "send", '{"to": "b"}', "--id", "j-1", "--queue", "mail", code=1)  # idempotency_mismatch
    assert len(jobs(file)) == 1


def test_enqueue_many_lines_and_again(file: Place) -> None:
    lines = [json.dumps({"task_type": "t", "id": f"j-{n}", "params": n}) for n in range(2500)]
    (file.folder / "jobs.jsonl").write_text("\n".join(lines) + "\n\n")
    assert file.dibs("enqueue", "--lines", "jobs.jsonl").stdout == "enqueued 2,500\n"
    assert file.dibs("enqueue", "--lines", "jobs.jsonl").stdout == "enqueued 0, 2,500 were there already\n"
    assert {job.id: job.params for job in jobs(file)} == {f"j-{n}": n for n in range(2500)}


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ('{"task_type": "t", "parms": 1}', "line 1500: parms: is not a field of this call; did you mean params?"),
        ('{"task_type": "a b"}', "line 1500: task"),
        ('{"task_type": "t", "params": 1, "params": 2}', "line 1500: params: is given twice"),
        ("{", "line 1500: is not JSON"),
        ('{"task_type": "t", "priority": 99999}', "line 1500: priority"),
        ('{"task_type": "other", "id": "j-1"}', "line 1500: "),
    ],
)
def test_a_bad_line_is_named_and_what_went_in_before_is_told(bad: str, words: str, file: Place) -> None:
    lines = [json.dumps({"task_type": "t", "id": f"j-{n}"}) for n in range(1, 3000)]
    lines[1499] = bad
    done = file.dibs("enqueue", "--lines", "-", given="\n".join(lines), code=1 if "other" in bad else 2)
    told, said = done.stderr.splitlines()
    assert told == "dibs: 1,000 jobs were enqueued before that"
    assert words in said
    assert {job.id for job in jobs(file)} == {f"j-{n}" for n in range(1, 1001)}, "a part is all or nothing"


# Who did it


def test_the_log_says_who_did_it(file: Place) -> None:
    id = file.dibs("enqueue", "t").stdout.strip()
    file.dibs("cancel", id)
    file.dibs("redrive", id, "--by", "anna")
    actors = [event["actor"] for event in file.json("log", id)]
    assert actors == [None, getpass.getuser(), "anna"]


# Over a server


def test_a_server_and_its_key(tmp_path: Path) -> None:
    owner = Place(tmp_path, f"sqlite:///{tmp_path}/jobs.db")
    owner.dibs("migrate")
    [reader] = owner.json("keys", "create", "--name", "reader", "--scope", "read")
    [producer] = owner.json("keys", "create", "--name", "producer", "--scope", "produce")
    with Serving(tmp_path) as server:
        client = Place(tmp_path, server.url)
        assert "key" in client.dibs("jobs", code=6).stderr
        made = client.dibs("enqueue", "t", "--api-key", producer["key"]).stdout.strip()
        [shown] = client.json("jobs", made, "--api-key", reader["key"])
        request = Request(f"{server.url}/api/tasks/{made}", headers={"X-API-Key": reader["key"]})
        with urlopen(request, timeout=30) as answer:
            assert shown == json.load(answer)["task"], "the same names, the same values"
        assert client.dibs("cancel", made, "--api-key", reader["key"], code=6).stderr.startswith("dibs: ")
        missing = client.dibs("cancel", "none", "--api-key", producer["key"], code=5)
        assert "no job 'none'" in missing.stderr, "a key that may not look is told no less"
        [event, *_] = client.json("log", made, "--api-key", reader["key"])
        assert event["event"] == "enqueued"


# Many


def test_redrive_counts_what_it_cannot_do(file: Place) -> None:
    with dibs.App(file.url).sync as app:
        for key in ("a", "b", None):
            app.enqueue("t", unique_key=key, max_attempts=1) if key else app.enqueue("t", max_attempts=1)
            app.claim("w").fail("no")  # type: ignore[union-attr]
        app.enqueue("t", unique_key="a")
    [changes] = file.json("redrive", "--all", "--yes")
    assert (changes["matched"], changes["changed"], changes["conflicts"]) == (3, 2, 1)
    alone = file.dibs("redrive", "--all", "--yes")
    assert alone.stdout == "redriven 0, 1 held back by a newer job with their unique key\n"
    named = file.dibs("redrive", *(job.id for job in jobs(file) if job.status == "failed"), code=1)
    assert "unique key" in named.stderr


def test_redrive_of_more_than_a_page_puts_the_oldest_first(file: Place) -> None:
    with dibs.App(file.url).sync as app:
        made = app.enqueue_many([dibs.NewJob("t") for _ in range(600)])
        app.cancel(*(job.id for job in made))
    assert file.dibs("redrive", "--status", "cancelled", "--yes").stdout == "redriven 600\n"
    with dibs.App(file.url).sync as app:
        assert [claim.id for claim in app.claim_many("w", limit=600)] == [job.id for job in made]


def test_redrive_by_error_leaves_the_others(file: Place) -> None:
    with dibs.App(file.url).sync as app:
        for n, kind in enumerate(["KeyError", "OSError", "KeyError"]):
            app.enqueue("t", n, max_attempts=1, id=f"j-{n}")
            app.claim("w").fail(dibs.Error("no", kind))  # type: ignore[union-attr]
    assert file.dibs("redrive", "--error", "KeyError", "--yes").stdout == "redriven 2\n"
    assert [job.id for job in jobs(file) if job.status == "failed"] == ["j-1"]


def test_pausing_a_queue_that_is_not_there_yet_is_done_and_told(file: Place) -> None:
    file.dibs("enqueue", "t", "--queue", "mail")
    done = file.dibs("pause", "mial", "mail")
    assert done.stdout == "paused mial\npaused mail\n"
    assert "did you mean mail?" in done.stderr
    assert {queue["queue"]: queue["paused"] for queue in file.json("queues")} == {"mail": True, "mial": True}
