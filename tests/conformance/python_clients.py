"""Clients for Python against the bundled broker, in exercises of ours: aiokafka, confluent-kafka.

    python -m tests.conformance.python_clients [aiokafka | confluent | steered] [--only WORDS] [--real]

Neither's source distribution has its integration tests in it (nor have older ones), so
`aiokafka_exercises.py` and `confluent_exercises.py` go over the same matters; `steered_exercises.py` takes
brokers and connections away from both (bundled cluster only).  Exit status 1 if anything failed or stalled.
Half a minute; part of `nox -s conformance`, not of the gate.
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

from . import aiokafka_exercises, confluent_exercises, steered_exercises
from .real_kafka import QUICK_GROUPS
from .suites import Serving

CLIENTS: dict[str, dict[str, Callable[[str, str], Any]]] = {
    "aiokafka": {**aiokafka_exercises.EXERCISES},
    "confluent": {**confluent_exercises.EXERCISES},
}
STEERED = "steered"
SERVING = Serving(
    config={**QUICK_GROUPS, "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000}
)
EXERCISE_TIMEOUT = 180.0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("client", nargs="?", choices=[*CLIENTS, STEERED])
    parser.add_argument(
        "--only", default="", metavar="WORDS", help="exercises with these words in their name"
    )
    parser.add_argument("--real", action="store_true", help="run against Apache Kafka, to compare")
    options = parser.parse_args(arguments)
    # What the clients warn of and log is not our matter.
    warnings.simplefilter("ignore")
    logging.basicConfig(level=logging.CRITICAL)
    failed = 0
    for client in CLIENTS:
        if options.client in (None, client):
            failed += _failures(client, options.only, options.real)
    if options.client in (None, STEERED) and not options.real:
        failed += _failures_when_steered(options.only)
    return 1 if failed else 0


def _failures(client: str, words: str, real: bool) -> int:
    print(f"{client} on {'Apache Kafka' if real else 'the bundled broker'}", flush=True)
    with SERVING.started(real) as servers:
        return _report(
            [
                _succeeds(name, exercise, servers, f"{client}-{number}")
                for number, (name, exercise) in enumerate(CLIENTS[client].items())
                if words in name
            ]
        )


def _failures_when_steered(words: str) -> int:
    from pykafka2.testing import KafkaCluster, Topic

    print("both on a cluster that loses brokers and connections", flush=True)
    outcomes = []
    for name, exercise in steered_exercises.EXERCISES.items():
        if words in name:
            topics = {"t": Topic(partitions=2, replication_factor=3)}
            with KafkaCluster(brokers=3, topics=topics, config=steered_exercises.CONFIG) as cluster:
                outcomes.append(_succeeds(name, exercise, cluster))
    return _report(outcomes)


def _report(outcomes: list[bool]) -> int:
    """Print how many there were; how many failed."""
    failed = outcomes.count(False)
    print(f"{len(outcomes) - failed} passed, {failed} failed\n", flush=True)
    return failed


def _succeeds(name: str, exercise: Callable[..., Any], *arguments: object) -> bool:
    started = time.monotonic()
    try:
        if inspect.iscoroutinefunction(exercise):
            asyncio.run(asyncio.wait_for(exercise(*arguments), EXERCISE_TIMEOUT))
        else:
            exercise(*arguments)
    except Exception:
        print(f"FAILED  {name} ({time.monotonic() - started:.1f} s)\n{traceback.format_exc()}", flush=True)
        return False
    print(f"ok      {name} ({time.monotonic() - started:.1f} s)", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
