"""Java's world against the bundled broker, and against Apache Kafka 4.4.0 for comparison.

    python -m tests.conformance.java_world [section ...] [--bundled] [--words] [--show]

Kafka's command-line tools with all their verbs, its admin client and its consumers and producers, Kafka
Streams, Connect and MirrorMaker 2, each against three bundled brokers and three of Apache's.  Prints a table:
how much was done in each section, and how much of it came out otherwise; then each difference that no row of
docs/fidelity.md explains (`--words`: also messages for people that are worded differently; `--show`: all that
was seen).  Exit status 1 if there is one.

About fifteen minutes; part of `nox -s long`, not of `.ci/run`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .behaviour.compare import Difference, differences, wordings
from .behaviour.golden import BUNDLED_CONFIG
from .bridge import Bridge
from .real_kafka import RealKafka
from .recorded_json import one_line_per_exchange
from .world import on_clients, on_cluster, on_connect, on_groups, on_mirror, on_moves, on_streams, on_topics
from .world.jars import WorldJars, world_jars
from .world.known import meant
from .world.side import Answers, Side

GOLDEN = Path(__file__).parent / "world" / "golden_admin.json"
"""Apache Kafka's response to every method of Admin; test_java_clients.py compares ours with it."""

RACKS = ["rack-0", "rack-1", "rack-2"]

SECTIONS: dict[str, Callable[[Side], Answers]] = {
    "topics": on_topics.topics,
    "configs": on_topics.configs,
    "groups": on_groups.groups,
    "reassignments": on_moves.reassignments,
    "transactions": on_moves.transactions,
    "cluster": on_cluster.cluster,
    "data": on_cluster.data,
    "admin": on_clients.admin,
    "clients": on_clients.clients,
    "streams": on_streams.streams,
    "connect": on_connect.connect,
    "mirror": on_mirror.mirror,
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance.java_world",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(SECTIONS))
    parser.add_argument("--bundled", action="store_true", help="leave Apache Kafka out, compare nothing")
    parser.add_argument("--record", action="store_true", help="keep Apache's answers of section admin")
    parser.add_argument("--words", action="store_true", help="also show messages worded differently")
    parser.add_argument("--show", action="store_true", help="print all that was seen")
    options = parser.parse_args(arguments)
    for name in options.sections:
        if name not in SECTIONS:
            parser.error(f"no section {name}; there are {', '.join(SECTIONS)}")
    jars = world_jars()
    unexpected: list[Difference] = []
    print(f"{'section':<15}{'steps':>6}{'same':>6}{'meant':>6}{'not':>6}   seconds (bundled, Apache)")
    for name in options.sections or SECTIONS:
        with bundled(jars) as side:
            ours, took = seen(name, side)
        theirs, theirs_took = ours, 0.0
        if not options.bundled:
            with apache(jars) as side:
                theirs, theirs_took = seen(name, side)
                if options.record and name == "admin":
                    GOLDEN.write_text(one_line_per_exchange(theirs), encoding="utf-8")
        if options.show:
            print(json.dumps({"ours": ours, "Apache's": theirs}, indent=1))
        found = differences(name, theirs, ours)
        strange = [one for one in found if not meant(one)]
        unexpected += strange
        differ, odd = {one.step for one in found}, {one.step for one in strange}
        row = f"{len(ours):>6}{len(ours.keys() - differ):>6}{len(differ - odd):>6}{len(odd):>6}"
        print(f"{name:<15}{row}   {took:.1f}, {theirs_took:.1f}", flush=True)
        for one in strange:
            print(f"  {one}")
        for one in wordings(name, theirs, ours) if options.words else ():
            print(f"  words: {one}")
    return 1 if unexpected else 0


def seen(section: str, side: Side) -> tuple[Answers, float]:
    """The section's findings there, and how long it took."""
    started = time.monotonic()
    try:
        return SECTIONS[section](side), time.monotonic() - started
    except Exception as problem:
        problem.add_note(f"in section {section} on {side.kind}")
        raise


@contextmanager
def bundled(jars: WorldJars) -> Iterator[Side]:
    from pykafka2.testing import KafkaCluster

    config = {name: value for name, value in BUNDLED_CONFIG.items() if name != "channel.mode"}
    with (
        KafkaCluster(brokers=3, config=config, racks=RACKS) as cluster,
        side_of("bundled", cluster.bootstrap_servers.split(","), jars) as side,
    ):
        side.stop_followers = cluster.controls.pause_followers
        yield side


@contextmanager
def apache(jars: WorldJars) -> Iterator[Side]:
    with RealKafka(jars.kafka, brokers=3, extra="broker.rack=rack-{node}\n") as kafka:
        _ = kafka.bootstrap_servers
        with side_of("apache", kafka.addresses, jars) as side:
            yield side


@contextmanager
def side_of(kind: str, addresses: list[str], jars: WorldJars) -> Iterator[Side]:
    with (
        tempfile.TemporaryDirectory(prefix="java-world-") as folder,
        Bridge(jars.kafka, Path(folder) / "bridge.log") as bridge,
    ):
        yield Side(kind, addresses, bridge, jars, Path(folder))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
