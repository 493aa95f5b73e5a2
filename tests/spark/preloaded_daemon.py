"""pyspark's daemon with everything imported that its workers import, each for itself, for a second.

    python -m tests.spark.preloaded_daemon WORKER_MODULE

A start with several queries has some twenty workers.  Neighbour: kill_campaign.py has Spark start this one.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from pyspark import daemon

IMPORTED = ("pyarrow.compute", "spark_connector.sink.batch", "spark_connector.sink.stream", "numpy")


def python(folder: Path) -> Path:
    """An executable for PYSPARK_PYTHON: this Python, and this daemon in place of pyspark's."""
    found = folder / "python"
    found.write_text(
        "#!/bin/sh\n"
        'if [ "$1 $2" = "-m pyspark.daemon" ]; then\n'
        f'    shift 2; exec {sys.executable} -m {__name__} "$@"\n'
        "fi\n"
        f'exec {sys.executable} "$@"\n'
    )
    found.chmod(0o755)
    return found


if __name__ == "__main__":
    for name in (*sys.argv[1:2], *IMPORTED):
        import_module(name)
    daemon.manager()
