"""The verdict on a soak: each way in which a promise can be broken is seen."""

import time
from pathlib import Path

import pytest

import dibs
from soak.check import judge
from soak.produce import _acknowledged
from soak.seen import Seen
from tests.chaos.histories import recording


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


class Story:
    """What two jobs, which were enqueued and completed, have left in a folder."""

    def __init__(self, folder: Path, ids: list[str]) -> None:
        self.folder, self.ids = folder, ids
        self.url = f"sqlite:///{folder}/jobs.db"

    def acknowledge(self, job: str) -> None:
        with (self.folder / "producer-1.produced").open("a") as file:
            file.write(f"{time.monotonic()} 1 {job}\n")

    def end(self, job: str, fence: int = 1) -> None:
        with (self.folder / "runs").open("a") as file:
            file.write(f"{time.monotonic()} worker-1 {job} {fence}\n")

    async def problems(self) -> list[str]:
        seen = Seen(self.folder)
        seen.look()
        return (await judge(self.url, self.folder, seen)).problems


@pytest.fixture
async def story(folder: Path) -> Story:
    with recording(folder / "one.jsonl", "one"):
        async with dibs.App(f"sqlite:///{folder}/jobs.db") as app:
            jobs = [await app.enqueue("t", number, idempotency_key=f"key-{number}") for number in range(2)]
            story = Story(folder, [job.id for job in jobs])
            for id in story.ids:
                claim = await app.claim("worker-1", id=id)
                assert claim is not None
                await claim.complete()
                story.acknowledge(id)
                story.end(id)
    return story


async def test_what_went_well_has_no_problems(story: Story) -> None:
    assert await story.problems() == []


async def test_acknowledged_and_lost(story: Story) -> None:
    story.acknowledge("never-there")
    story.end("never-there")
    assert await story.problems() == ["acknowledged and lost: 1: never-there"]


async def test_acknowledged_and_never_run(story: Story) -> None:
    (story.folder / "runs").unlink()
    story.end(story.ids[0])
    assert await story.problems() == [f"acknowledged, and no handler ever ran to its end: 1: {story.ids[1]}"]


async def test_run_to_the_end_twice_under_one_fence(story: Story) -> None:
    story.end(story.ids[0], fence=2)  # another fence: it was taken over, and that may be
    assert await story.problems() == []
    story.end(story.ids[0], fence=2)
    assert await story.problems() == [f"run to the end twice under one fence: 1: ('{story.ids[0]}', 2)"]


async def test_a_job_that_did_not_end(story: Story) -> None:
    with recording(story.folder / "two.jsonl", "two"):
        async with dibs.App(story.url) as app:
            job = await app.enqueue("t")
    not_completed, histories = await story.problems()
    assert not_completed == f"not completed: 1: {job.id} (pending)"
    assert "no one took it" in histories


async def test_a_change_that_no_one_asked_for(story: Story) -> None:
    async with dibs.App(story.url) as app:  # as if it had come from nowhere: it is not recorded
        await app.enqueue("t", idempotency_key="unheard of")
        claim = await app.claim("worker-1")
        assert claim is not None
        await claim.complete()
    [histories] = await story.problems()
    assert histories.startswith("the histories: ")


async def test_nothing_recorded_is_no_success(story: Story) -> None:
    (story.folder / "one.jsonl").write_text("")
    assert "nothing was recorded" in await story.problems()


# What was left in the files


@pytest.fixture
def produced(folder: Path) -> Path:
    path = folder / "producer-1.produced"
    path.write_text("1.5 1 job-a\n1.6 2 ! OSError no luck (Try again.)\n1.7 3 job-c\n1.8 2 job-b\n1.9 4 job-torn")
    return path


def test_a_line_on_its_way_is_read_when_it_is_whole(folder: Path, produced: Path) -> None:
    seen = Seen(folder)
    seen.look()
    assert seen.acknowledged == {"job-a": 1.5, "job-c": 1.7, "job-b": 1.8}
    assert seen.refused == [(1.6, "OSError no luck (Try again.)")]
    assert seen.last == {"producer-1": 1.8}
    with produced.open("a") as file:
        file.write("-no-more\n")
    seen.look()
    assert seen.acknowledged["job-torn-no-more"] == 1.9


def test_a_producer_that_was_killed_goes_on_where_its_file_ends(produced: Path) -> None:
    assert _acknowledged(produced) == {1, 2, 3}
    assert produced.read_text().endswith("job-b\n"), "what was torn is cut off"


def test_a_producer_whose_first_line_was_torn_begins_anew(folder: Path) -> None:
    path = folder / "producer-1.produced"
    assert _acknowledged(path) == set()
    path.write_text("1.5 1 jo")
    assert _acknowledged(path) == set()
    assert path.read_text() == ""
