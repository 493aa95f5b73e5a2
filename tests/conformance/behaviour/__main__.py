"""Compare, or record: see the package's docstring."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache

from ..maven import kafka_jars
from ..real_kafka import RealKafka
from .compare import differences, wordings
from .golden import Addresses, addresses_of, bundled_for, is_about_access, record, recorded, transcript
from .scenarios import SCENARIOS


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.behaviour", description=__doc__)
    parser.add_argument("scenarios", nargs="*", help="names, or their beginnings (default: all)")
    parser.add_argument("--real", action="store_true", help="ask Apache Kafka now, not golden/")
    parser.add_argument("--record", action="store_true", help="write golden/ from Apache Kafka")
    parser.add_argument(
        "--show", metavar="TEXT", help="print the recorded exchanges whose name contains TEXT"
    )
    parser.add_argument("--words", action="store_true", help="also show error messages worded differently")
    options = parser.parse_args(arguments)
    names = [
        name for name in SCENARIOS if not options.scenarios or any(map(name.startswith, options.scenarios))
    ]
    if options.show is not None:
        show_recorded(names, options.show)
        return 0
    unexpected = 0
    with ExitStack() as stack:

        @cache
        def apache(authorizes: bool) -> Addresses:
            kafka = stack.enter_context(RealKafka(kafka_jars(), brokers=3, authorizes=authorizes))
            _ = kafka.bootstrap_servers
            return kafka.addresses, kafka.sasl_addresses

        @cache
        def bundled(about_access: bool) -> Addresses:
            kind = "access_" if about_access else ""
            return addresses_of(stack.enter_context(bundled_for(kind)), kind)

        for name in names:
            ours = bundled(is_about_access(name))
            asked = apache(is_about_access(name)) if options.real or options.record else None
            started = time.monotonic()
            truth = recorded(name) if asked is None else transcript(name, asked)
            middle = time.monotonic()
            if options.record:
                record(name, truth)
            try:
                answers = transcript(name, ours)
            except Exception as problem:
                print(f"{name}: FAILED on the bundled broker: {problem!r} {problem.__notes__}")
                unexpected += 1
                continue
            found = differences(name, truth, answers)
            meant = [one for one in found if one.known()]
            strange = [one for one in found if not one.known()]
            unexpected += len(strange)
            took = f"{middle - started:.1f} s, {time.monotonic() - middle:.1f} s"
            print(
                f"{name}: {len(truth)} answers, {len(meant)} differences known, {len(strange)} not ({took})"
            )
            for one in strange:
                print(f"  {one}")
            for one in wordings(name, truth, answers) if options.words else ():
                print(f"  words: {one}")
    return 1 if unexpected else 0


def show_recorded(scenarios: Sequence[str], text: str) -> None:
    """Prints the recorded exchanges of these scenarios whose name contains `text`, indented for reading."""
    for scenario in scenarios:
        for request, answer in recorded(scenario).items():
            if text in request:
                print(f"{scenario}, {request}:\n{json.dumps(answer, indent=2, ensure_ascii=False)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
