#!/usr/bin/env python3
# A worker in plain Python, without dibs: claims jobs over HTTP, extends, settles, gives back on SIGTERM; for DIBS_URL.
import contextlib, http.client, json, os, signal, sys, threading, time  # noqa: E401, I001 - it is to fit on a page
from typing import Any

PLACE, LEASE = os.environ.get("DIBS_URL", "http://127.0.0.1:8642"), float(os.environ.get("DIBS_LEASE", "30"))
HEADERS = {"X-API-Key": os.environ.get("DIBS_API_KEY", ""), "Content-Type": "application/json"}
stopping, over = threading.Event(), threading.Event()  # we are to stop; the job that runs is not ours any more


def work(params: Any, fence: int) -> Any:  # put yours here; wherever you write to, refuse writes with a lower fence
    if over.wait(params.get("seconds", 0)):
        raise InterruptedError
    if "text" not in params:
        raise ValueError("there is no text")
    return params["text"].upper()


def post(path: str, body: Any) -> tuple[int, Any]:
    link = http.client.HTTPConnection(PLACE.removeprefix("http://"), timeout=60)
    with contextlib.closing(link), contextlib.suppress(OSError, http.client.HTTPException, ValueError):
        link.request("POST", path, json.dumps(body), HEADERS)
        reply = link.getresponse()
        return reply.status, json.loads(reply.read())
    return 0, None  # no answer came


def keep(path: str, claim: Any, done: threading.Event) -> None:  # beside the work
    while not done.wait(LEASE / 3):
        if post(f"{path}/heartbeat", claim)[0] in {404, 409}:
            over.set()


def handle(task: Any) -> None:
    path, claim, done = f"/api/tasks/{task['id']}", {k: task[k] for k in ("fence", "lease_token")}, threading.Event()
    (over.set if stopping.is_set() else over.clear)()
    threading.Thread(target=keep, args=(path, claim, done), daemon=True).start()
    try:
        how, body = "complete", {**claim, "success": True, "result": work(task["params"], task["fence"])}
    except InterruptedError:
        how, body = "release", claim
    except Exception as error:  # noqa: BLE001 - whatever it was, it is told
        how, body = "complete", {**claim, "success": False, "error_message": str(error)}
    done.set()
    while not 200 <= (status := post(f"{path}/{how}", body)[0]) < 429:
        time.sleep(1)  # the same again until it is answered: settling twice is safe
    print(f"{task['id']}: {how}, {status}", flush=True)


signal.signal(signal.SIGTERM, lambda *_: stopping.set() or over.set())  # type: ignore[func-returns-value,redundant-expr]
while not stopping.is_set():
    wish = {"worker_id": f"python-{os.getpid()}", "task_types": ["shout"], "lease_seconds": LEASE, "wait_seconds": 5}
    status, reply = post("/api/tasks/claim", wish)
    if status == 200:
        handle(reply["task"])
    elif status in {400, 401, 403}:
        sys.exit(reply["message"])
    elif status != 404:
        stopping.wait(1)  # the server is away, or says to wait
