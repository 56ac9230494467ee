"""The same app on the other side of a server: enqueue, work and look over HTTP. Run it: python examples/over_http.py"""

import asyncio
import subprocess
import sys
import tempfile

import dibs


async def use(url: str) -> None:
    async with dibs.App(url) as app:  # with api_key="dibs_…", if the server asks for one

        @app.task(max_attempts=5)
        async def greet(name: str) -> str:
            return f"hello {name}, under fence {dibs.current().fence}"

        jobs = [await greet.enqueue(name) for name in ("ada", "grace")]
        await dibs.Worker(app).run(until_idle=True)
        for job in jobs:
            print((await app.wait(job.id, timeout=10)).result)
        print(await app.counts())


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        serve = [
            sys.executable,
            "-m",
            "dibs",
            "serve",
            "--no-auth",
            "--port",
            "0",
            "--store",
            f"sqlite:///{folder}/jobs.db",
        ]
        with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            started = server.stdout.readline()
            try:
                asyncio.run(use(next(word for word in started.split() if word.startswith("http://")).rstrip(",")))
            finally:
                server.terminate()
                server.communicate()


if __name__ == "__main__":
    main()
