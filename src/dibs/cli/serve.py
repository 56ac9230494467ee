"""``dibs serve``: the queue over HTTP."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from dibs.app import App

MISSING = "dibs: the server needs more packages: pip install 'dibs-queue[server]'"


def serve(
    *,
    host: Annotated[str, Parameter(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, Parameter(help="The port; 0 takes any that is free.")] = 8642,
    store: Annotated[str | None, Parameter(help="The store's URL.")] = None,
    no_auth: Annotated[bool, Parameter(help="Ask for no keys; on this machine only.", negative=())] = False,
    processes: Annotated[int, Parameter(help="How many processes serve; one for each core, at the most.")] = 1,
    certfile: Annotated[str | None, Parameter(help="A certificate in PEM, with those that vouch for it: TLS.")] = None,
    keyfile: Annotated[str | None, Parameter(help="The certificate's key, if it is in a file of its own.")] = None,
    log_requests: Annotated[
        bool, Parameter(help="Write each request to stderr, as a line of JSON.", negative=())
    ] = False,
    no_check_params: Annotated[
        bool, Parameter(help="Take params as they come, whatever workers have published of them.", negative=())
    ] = False,
) -> int:
    """Serve the queue over HTTP, until SIGTERM or Ctrl-C.

    The first start makes an admin key: shown once on a terminal, else written to a file that only its owner can read.
    """
    try:
        from dibs.server.serve import run
        from dibs.server.tls import certificate_of
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("dibs"):
            raise
        print(MISSING, file=sys.stderr)
        return 2
    run(
        App(store),
        host=host,
        port=port,
        auth=not no_auth,
        number=processes,
        certificate=certificate_of(certfile, keyfile),
        log_requests=log_requests,
        check_params=not no_check_params,
        terminal=sys.stdout.isatty(),
        say=_say,
    )
    return 0


def _say(line: str) -> None:
    print(line, flush=True)
