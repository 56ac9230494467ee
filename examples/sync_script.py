"""The same without an event loop: Django, Flask, scripts. Run it: python examples/sync_script.py"""

import dibs

app = dibs.App("memory://")


@app.task(queue="reports")
def make_report(year: int, *, draft: bool = False) -> str:
    return f"report of {year}{' (draft)' if draft else ''}"


def main() -> None:
    with app.sync as queue:
        job = make_report.sync.enqueue(2026, draft=True)
        print(queue.explain(job.id).message)

        claim = queue.claim(queues=["reports"])
        assert claim is not None
        with claim:
            claim.progress(0.5, "adding up")
            claim.complete(make_report(**claim.params))

        ended = queue.wait(job.id, timeout=5)
        print(ended.status, ended.result)
        assert ended.result == "report of 2026 (draft)"


if __name__ == "__main__":
    main()
