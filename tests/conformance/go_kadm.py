"""Responses to kadm, the admin client of franz-go, by three brokers, compared with those of Apache Kafka.

    python -m tests.conformance.go_kadm [--real] [--record]

builds `go/kadm` (kadm's own tests ask no broker), runs it against the bundled cluster, and compares its
sixty answers with `go/kadm/apache.txt`, line by line.  `--real` asks Apache Kafka instead, `--record` writes
its answers there.  Exit status 1 where a line differs that DIFFERENT does not name, or the other way round.

Half a minute where Go has its modules; part of `nox -s conformance`, not of `.ci/run`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pykafka2.testing import KafkaCluster

from .go_programs import SOURCES, go_program
from .maven import kafka_jars
from .real_kafka import RealKafka

RECORDED = SOURCES / "kadm" / "apache.txt"
RUN_TIMEOUT = 120.0
NAME_WIDTH = 35

CONFIG: dict[str, object] = {"auto.create.topics.enable": False, "group.initial.rebalance.delay.ms": 0}
"""Settings as tests/conformance/real_kafka.py has them for Apache Kafka."""

DIFFERENT: dict[str, str] = {}
"""Answers that are not Apache Kafka's, and why."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--real", action="store_true", help="ask Apache Kafka")
    parser.add_argument("--record", action="store_true", help="ask Apache Kafka, and keep what it says")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="go-kadm-") as folder:
        program = go_program("kadm", Path(folder))
        with cluster(options.real or options.record) as addresses:
            output = subprocess.run(
                [str(program), addresses], stdout=subprocess.PIPE, check=True, timeout=RUN_TIMEOUT
            ).stdout.decode()
    if options.record:
        RECORDED.write_text(output)
        return 0
    return compare(output, {} if options.real else DIFFERENT)


@contextmanager
def cluster(real: bool) -> Iterator[str]:
    """Three brokers; their addresses."""
    if real:
        with RealKafka(kafka_jars(), brokers=3) as kafka:
            yield kafka.bootstrap_servers
        return
    with KafkaCluster(brokers=3, config=CONFIG) as bundled:
        yield bundled.bootstrap_servers


def compare(output: str, different: dict[str, str]) -> int:
    """Print the answers that are not the recorded ones; 1 if they are not those that should be."""
    printed, recorded = output.splitlines(), RECORDED.read_text().splitlines()
    found = {name_of(ours): (ours, theirs) for ours, theirs in zip(printed, recorded, strict=False)}
    found = {name: lines for name, lines in found.items() if lines[0] != lines[1]}
    print(f"kadm: {len(printed)} answers, {len(printed) - len(found)} as Apache Kafka's {len(recorded)}")
    for name, (ours, theirs) in found.items():
        print(
            f"  {'as expected' if name in different else 'UNEXPECTED':12} {name}  {different.get(name, '')}"
        )
        if name not in different:
            print(f"    ours   {ours[NAME_WIDTH:]}\n    Kafka  {theirs[NAME_WIDTH:]}")
    for name in different.keys() - found.keys():
        print(f"  {'MENDED':12} {name}")
    return 1 if found.keys() != different.keys() or len(printed) != len(recorded) else 0


def name_of(answer: str) -> str:
    return answer[:NAME_WIDTH].strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
