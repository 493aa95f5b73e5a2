"""Clients for Node.js against the bundled broker: kafkajs and @platformatic/kafka, in exercises of ours.

    python -m tests.conformance.node_clients [kafkajs | platformatic] [--real]

Neither package has its tests in it, so `node/*.js` has them: admin, producers of the codecs, groups (of the
classic protocol and KIP-848), transactions.  npm installs the pinned versions into the cache folder.  Exit
status 1 if anything failed or stalled.  Half a minute; not part of the gate.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from .maven import cache_folder
from .real_kafka import QUICK_GROUPS
from .suites import Serving, run

EXERCISES = Path(__file__).parent / "node"
PACKAGES = {"kafkajs": "kafkajs@2.2.4", "platformatic": "@platformatic/kafka@1.35.0"}
SERVING = Serving(
    config={"auto.create.topics.enable": True, "num.partitions": 1, **QUICK_GROUPS},
    brokers=3,
)
INSTALL_TIMEOUT = 180.0
EXERCISE_TIMEOUT = 120.0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("client", nargs="?", choices=list(PACKAGES))
    parser.add_argument("--real", action="store_true", help="run against Apache Kafka, to compare")
    options = parser.parse_args(arguments)
    succeeded = [
        _succeeds(client, package, options.real)
        for client, package in PACKAGES.items()
        if options.client in (None, client)
    ]
    return 0 if all(succeeded) else 1


def _succeeds(client: str, package: str, real: bool) -> bool:
    folder = _installed(client, package)
    with SERVING.started(real) as addresses:
        environment = {"KAFKA": addresses, "REPLICAS": str(SERVING.brokers)}
        output = run(["node", f"{client}.js"], folder, environment, EXERCISE_TIMEOUT)
    print(f"{package} on {'Apache Kafka' if real else 'the bundled broker'}\n{output}")
    return output.rstrip().endswith(" passed, 0 failed")


def _installed(client: str, package: str) -> Path:
    """A folder with the package and its exercise."""
    folder = cache_folder() / f"node-{package.replace('/', '-')}"
    if not (folder / "node_modules").exists():
        folder.mkdir(exist_ok=True)
        (folder / "package.json").write_text("{}")
        subprocess.run(
            ["npm", "install", "--silent", package], cwd=folder, check=True, timeout=INSTALL_TIMEOUT
        )
    shutil.copy(EXERCISES / f"{client}.js", folder)
    return folder


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
