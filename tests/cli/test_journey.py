"""From a job that fails to a dead letter and back, with the commands alone, on every kind of place."""

import json

import pytest

from tests.cli.running import Place

JOB = {"task_type": "mail", "queue": "post", "max_attempts": 1, "batch_id": "letters", "tags": ["urgent"]}


def fail_all(place: Place, number: int, kind: str = "KeyError") -> list[str]:
    """Claim so many jobs by hand and fail each, with a message that differs in a number."""
    ids = []
    for n in range(number):
        [task] = place.json("claim", "--worker-id", "by-hand", "--queue", "post")
        token = {"DIBS_LEASE_TOKEN": task["lease_token"]}
        said = place.dibs(
            "fail", task["id"], "--fence", str(task["fence"]), "--error", f"no user {n}", "--kind", kind, env=token
        )
        assert "is failed" in said.stdout
        ids.append(task["id"])
    return ids


def journey(place: Place) -> None:
    lines = "\n".join(json.dumps({**JOB, "params": {"to": n}}) for n in range(3))
    assert place.dibs("enqueue", "--lines", "-", given=lines).stdout == "enqueued 3\n"
    ids = fail_all(place, 2)

    [group] = place.json("dead", "--queue", "post")
    assert (group["task_type"], group["kind"], group["jobs"]) == ("mail", "KeyError", 2)
    assert group["message"] == "no user 1", "that of the newest"
    assert group["example_id"] == ids[-1]
    assert {task["id"] for task in place.json("jobs", "--status", "failed")} == set(ids)
    [queue] = place.json("queues")
    assert (queue["queue"], queue["counts"]["failed"], queue["counts"]["pending"]) == ("post", 2, 1)
    [batch] = place.json("batches", "letters")
    assert (batch["total"], batch["failed"], batch["exact"]) == (3, 2, True)
    assert "Redrive it to run it again" in place.dibs("explain", ids[0]).stdout

    preview = place.dibs("redrive", "--error", "KeyError", "--dry-run")
    assert "would redrive 2" in preview.stdout
    assert "no user 1" in preview.stdout
    assert place.json("jobs", "--status", "failed", "--limit", "5"), "a preview changes nothing"
    refused = place.dibs("redrive", "--error", "KeyError", code=2)
    assert "--yes" in refused.stderr
    [changes] = place.json("redrive", "--error", "KeyError", "--yes", "--by", "anna")
    assert (changes["matched"], changes["changed"]) == (2, 2)

    events = place.json("log", ids[0])
    assert [event["event"] for event in events] == ["enqueued", "claimed", "failed", "redriven"]
    assert events[-1]["actor"] == "anna"
    assert place.json("dead") == []

    place.dibs("pause", "post")
    assert "no job is due" in place.dibs("claim", code=3).stderr
    assert place.dibs("resume", "post").stdout == "resumed post\n"
    [task] = place.json("claim", "--worker-id", "by-hand")
    assert [worker["active_tasks"] for worker in place.json("workers")] == [1]
    place.dibs(
        "complete", task["id"], "--fence", str(task["fence"]), "--lease-token", task["lease_token"], "--result", "[1]"
    )
    [done] = place.json("jobs", task["id"])
    assert (done["status"], done["result"]) == ("completed", [1])
    lost = place.dibs("release", task["id"], "--fence", "9", "--lease-token", task["lease_token"], code=4)
    assert "taken over" in lost.stderr

    [pending, *_] = place.json("jobs", "--status", "pending")
    assert place.dibs("cancel", pending["id"]).stdout == "cancelled 1\n"
    [changes] = place.json("purge", "--status", "completed", "--status", "cancelled", "--yes")
    assert changes["changed"] == 2
    assert len(place.json("jobs")) == 1
    assert '"ok":true' in place.dibs("verify", "--json").stdout


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_from_a_failing_job_to_the_dead_letter_and_back(place: Place) -> None:
    journey(place)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_same_on_the_databases(database: Place) -> None:
    journey(database)
