"""Measures the cost of TLS, logins and ACLs in one run.

    python -m benchmarks.security              Apache Kafka and the bundled broker: half an hour
    python -m benchmarks.security --smoke      the bundled broker, few records: half a minute
    python -m benchmarks.security --broker bundled --kind send --client "pykafka2 send" --rounds 5

  send, poll   1,000,000 and 1,500,000 records of 100 B in 6 partitions, with TLS and in plaintext
  log in       a client connects, logs in with SCRAM-SHA-256 (4,096 iterations) or without authentication,
               requests metadata once, and closes; one process for all logins of a client
  rules        Produce requests to two bundled brokers in turns, one of which has an authorizer

Each client runs in a process of its own, so processor time is the client's. Clients take turns, and every
other round runs in reverse order. Ratios are medians over rounds; compare ratios rather than rates, because
the machine may be busy.

--write keeps the table as build/benchmarks/<date>-security.txt. The exit status is 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.producer.brokers import BROKERS
from benchmarks.security.report import reached, tables
from benchmarks.security.runner import KINDS, Plan, play_all
from benchmarks.security.runs import CLIENTS, RULES, Cell
from benchmarks.side_by_side.command import Benchmark, add_outputs, run

SMOKE_SHARE = 0.01


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.security",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    every = dict.fromkeys(name for names in CLIENTS.values() for name in names)
    parser.add_argument("--smoke", action="store_true", help="few records, one round, the bundled broker")
    parser.add_argument("--broker", choices=BROKERS, action="append", help="default: both")
    parser.add_argument("--kind", choices=KINDS, action="append", help="default: all")
    parser.add_argument("--client", choices=every, action="append", metavar="NAME", help="default: all")
    parser.add_argument(
        "--rounds", type=int, default=None, help="rounds of each cell (default 3; --smoke: 1)"
    )
    parser.add_argument(
        "--share",
        type=float,
        default=None,
        help="fraction of the records of a full run (default 1; --smoke: 0.01)",
    )
    add_outputs(parser)
    return parser.parse_args(arguments)


def plan_of(arguments: argparse.Namespace) -> Plan:
    is_smoke = arguments.smoke
    cells = [
        Cell(broker, kind)
        for broker in arguments.broker or (["bundled"] if is_smoke else BROKERS)
        for kind in arguments.kind or KINDS
        if kind != RULES or broker == "bundled"
    ]
    return Plan(
        cells,
        arguments.client,
        arguments.rounds or (1 if is_smoke else 3),
        arguments.share or (SMOKE_SHARE if is_smoke else 1.0),
    )


def main(command_line: Sequence[str]) -> int:
    arguments = parse(command_line)
    return run(Benchmark("security", play_all, tables, reached), plan_of(arguments), arguments, command_line)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
