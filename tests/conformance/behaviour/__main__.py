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
from ..zookeeper_kafka import ZooKeeperKafka, older
from .compare import differences, wordings
from .golden import Addresses, addresses_of, bundled_for, is_about_access, record, recorded, transcript
from .known import KNOWN
from .older_releases import KNOWN_OF, SCENARIOS_OF, SERVERS
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
    parser.add_argument(
        "--release", choices=[*SERVERS], help="compare with this release, or record it; default: the newest"
    )
    options = parser.parse_args(arguments)
    release: str | None = options.release
    names = [
        name
        for name in (SCENARIOS if release is None else SCENARIOS_OF[release])
        if not options.scenarios or any(map(name.startswith, options.scenarios))
    ]
    if options.show is not None:
        show_recorded(names, options.show, release)
        return 0
    unexpected = 0
    with ExitStack() as stack:

        @cache
        def apache(authorizes: bool) -> Addresses:
            kafka = stack.enter_context(server_of(release, authorizes))
            _ = kafka.bootstrap_servers
            return kafka.addresses, kafka.sasl_addresses

        @cache
        def bundled(about_access: bool) -> Addresses:
            kind = "access_" if about_access else ""
            return addresses_of(stack.enter_context(bundled_for(kind, release=release)), kind)

        for name in names:
            ours = bundled(is_about_access(name))
            observed = apache(is_about_access(name)) if options.real or options.record else None
            started = time.monotonic()
            truth = recorded(name, release) if observed is None else transcript(name, observed, release)
            middle = time.monotonic()
            if options.record:
                record(name, truth, release)
            try:
                answers = transcript(name, ours, release)
            except Exception as problem:
                print(f"{name}: FAILED on the bundled broker: {problem!r} {problem.__notes__}")
                unexpected += 1
                continue
            found = differences(name, truth, answers)
            known = (*KNOWN, *KNOWN_OF.get(release or "", ()))
            meant = [one for one in found if one.among(known)]
            strange = [one for one in found if not one.among(known)]
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


def server_of(release: str | None, authorizes: bool) -> RealKafka | ZooKeeperKafka:
    """Three brokers of Apache Kafka: the newest, or of this release."""
    if release is None:
        return RealKafka(kafka_jars(), brokers=3, authorizes=authorizes)
    return older(release, authorizes=authorizes)


def show_recorded(scenarios: Sequence[str], text: str, release: str | None) -> None:
    """Print the recorded exchanges of these scenarios whose name contains `text`, indented for reading."""
    for scenario in scenarios:
        for request, answer in recorded(scenario, release).items():
            if text in request:
                print(f"{scenario}, {request}:\n{json.dumps(answer, indent=2, ensure_ascii=False)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
