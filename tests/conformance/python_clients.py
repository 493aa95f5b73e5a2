"""Clients for Python against the bundled broker, in exercises of ours: aiokafka, confluent-kafka.

    python -m tests.conformance.python_clients [aiokafka | confluent] [--only WORDS] [--real]

Neither's source distribution has its integration tests in it (the wheels and older versions have not, either),
so `aiokafka_exercises.py` and `confluent_exercises.py` go over the same matters.  Exit status 1 if anything
failed or stalled.  Half a minute; not part of the gate.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import logging
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

from . import aiokafka_exercises, confluent_exercises
from .real_kafka import QUICK_GROUPS
from .suites import Serving

CLIENTS: dict[str, dict[str, Callable[[str, str], Any]]] = {
    "aiokafka": {**aiokafka_exercises.EXERCISES},
    "confluent": {**confluent_exercises.EXERCISES},
}
SERVING = Serving(
    config={
        **QUICK_GROUPS,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
    }
)
EXERCISE_TIMEOUT = 60.0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("client", nargs="?", choices=list(CLIENTS))
    parser.add_argument(
        "--only", default="", metavar="WORDS", help="exercises with these words in their name"
    )
    parser.add_argument("--real", action="store_true", help="run against Apache Kafka, to compare")
    options = parser.parse_args(arguments)
    # What the clients warn of and log is not our matter.
    warnings.simplefilter("ignore")
    logging.basicConfig(level=logging.CRITICAL)
    failed = 0
    for client in [options.client] if options.client else list(CLIENTS):
        with SERVING.started(options.real) as servers:
            print(f"{client} on {'Apache Kafka' if options.real else 'the bundled broker'}")
            chosen = {name: run for name, run in CLIENTS[client].items() if options.only in name}
            outcomes = [
                _succeeds(client, number, *item, servers) for number, item in enumerate(chosen.items())
            ]
        print(f"{sum(outcomes)} passed, {outcomes.count(False)} failed\n", flush=True)
        failed += outcomes.count(False)
    return 1 if failed else 0


def _succeeds(client: str, number: int, name: str, exercise: Callable[[str, str], Any], servers: str) -> bool:
    started = time.monotonic()
    try:
        if inspect.iscoroutinefunction(exercise):
            asyncio.run(asyncio.wait_for(exercise(servers, f"{client}-{number}"), EXERCISE_TIMEOUT))
        else:
            exercise(servers, f"{client}-{number}")
    except Exception:
        print(f"FAILED  {name} ({time.monotonic() - started:.1f} s)\n{traceback.format_exc()}", flush=True)
        return False
    print(f"ok      {name} ({time.monotonic() - started:.1f} s)", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
