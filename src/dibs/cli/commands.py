"""Which commands there are, and what becomes of their errors."""

from __future__ import annotations

import sys

import cyclopts

from dibs import __version__
from dibs.cli.demo import demo
from dibs.cli.doctor import doctor
from dibs.cli.keys import keys
from dibs.cli.migrate import migrate
from dibs.cli.schedules import schedules
from dibs.cli.serve import serve
from dibs.cli.verify import verify
from dibs.cli.worker import worker
from dibs.domain.errors import DibsError

commands = cyclopts.App(
    name="dibs",
    help="A job queue whose claims are proven. The store comes from --store, DIBS_STORE, or is sqlite:///dibs.db.",
    version=__version__,
    result_action="return_value",
)
commands.command(demo)
commands.command(verify)
commands.command(migrate)
commands.command(doctor)
commands.command(worker)
commands.command(serve)
commands.command(keys)
commands.command(schedules)


def run(tokens: list[str]) -> int:
    """Run one command and give its exit code; a user's mistake is told in a sentence, without a traceback."""
    try:
        code = commands(tokens, exit_on_error=False)
    except cyclopts.CycloptsError:
        return 2  # cyclopts has said what was wrong
    except DibsError as error:
        print(f"dibs: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return code if isinstance(code, int) else 0
