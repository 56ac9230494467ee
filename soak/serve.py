"""An API server process, as ``dibs serve`` is, with all that it asks of its store recorded.

python -m soak.serve STORE FOLDER NAME PORT
"""

import sys
from pathlib import Path

from dibs.cli import main
from tests.chaos.histories import recording

if __name__ == "__main__":
    store, folder, name, port = sys.argv[1:]
    sys.argv = ["dibs", "serve", "--no-auth", "--store", store, "--port", port]
    with recording(Path(folder) / f"{name}.jsonl", name):
        main()
