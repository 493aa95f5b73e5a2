"""Measure a cluster from this host: rates and latencies of a producer, a consumer, or both ends together.

Each measurement ends by itself or with Ctrl-C, which prints what was measured until then. Client options
decide the result: pass those of your programs with -X, such as -X acks=1 -X linger.ms=20.

examples:
  pykafka2 perf produce load --records 1000000 --size 100
  pykafka2 perf produce load --duration 30 --rate 5000 -X acks=all
  pykafka2 perf consume load
  pykafka2 perf latency load --records 5000
  pykafka2 perf latency load --rate 200 --json
"""

from __future__ import annotations

import argparse

from pykafka2.cli.common import verbs
from pykafka2.cli.common.output import Output
from pykafka2.cli.common.parsing import Parser, natural, partition_count, positive, rate
from pykafka2.cli.common.verbs import Action
from pykafka2.cli.perf.measurements import DEFAULT_RECORDS

SUMMARY = "measure rates and latencies: produce, consume, latency"
DEFAULT_ROUNDS = 1_000

PRODUCE = """\
Sends records of random bytes as fast as possible, or at --rate, and waits for all acknowledgements. The
latency of a record is the time from the call of send (with --rate: from the moment at which it was due) to
its acknowledgement, measured for at most 20,000 records at equal distances.

  pykafka2 perf produce load --records 1000000 --size 100
  pykafka2 perf produce load --duration 30 --rate 5000 -X acks=all -X linger.ms=20
"""
CONSUME = """\
Reads all records that the topic has now, or --records of them, and counts records and bytes. Without
--group it reads all partitions and commits nothing.

  pykafka2 perf consume load
  pykafka2 perf consume load --records 500000 --group loadtest -X fetch.min.bytes=100000
"""
LATENCY = """\
Sends a record, waits until this process has consumed it, and sends the next one: the latency without load.
With --rate, records are sent when they are due, without waiting for earlier ones. "acknowledged" is the time
until the broker's acknowledgement, "end to end" that until the record is consumed.

  pykafka2 perf latency load
  pykafka2 perf latency load --rate 500 --records 10000 --size 1000 -X acks=1
"""


def configure(parser: Parser) -> None:
    """Add the sub-verbs."""
    verbs.add_actions(
        parser,
        Action("produce", "measure a producer", _produce, _configure_produce, PRODUCE),
        Action("consume", "measure a consumer", _consume, _configure_consume, CONSUME),
        Action(
            "latency", "measure the latency from producer to consumer", _latency, _configure_latency, LATENCY
        ),
    )


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Run the sub-verb; return its exit code."""
    return verbs.run_action(arguments, output)


def _configure_produce(parser: Parser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="a topic that exists")
    limit = parser.add_mutually_exclusive_group()
    limit.add_argument(
        "--records",
        type=positive,
        metavar="N",
        help=f"the number of records ({DEFAULT_RECORDS} without --duration)",
    )
    limit.add_argument("--duration", type=rate, metavar="SECONDS", help="send for this time instead")
    parser.add_argument(
        "--size", type=partition_count, default=100, metavar="BYTES", help="size of a value (100)"
    )
    parser.add_argument("--rate", type=rate, metavar="N", help="records per second (no limit)")


def _configure_consume(parser: Parser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="a topic that exists")
    parser.add_argument(
        "--records", type=positive, metavar="N", help="the number of records (all that the topic has now)"
    )
    parser.add_argument("--group", metavar="ID", help="read as a member of this group")
    parser.add_argument(
        "--timeout",
        type=rate,
        default=10.0,
        metavar="SECONDS",
        help="fail after this time without a record (10)",
    )


def _configure_latency(parser: Parser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="a topic that exists")
    parser.add_argument(
        "--records",
        type=positive,
        default=DEFAULT_ROUNDS,
        metavar="N",
        help=f"the number of records that are measured ({DEFAULT_ROUNDS})",
    )
    parser.add_argument(
        "--warmup", type=natural, default=10, metavar="N", help="records before them, not measured (10)"
    )
    parser.add_argument(
        "--size", type=partition_count, default=100, metavar="BYTES", help="size of a value (100)"
    )
    parser.add_argument("--partition", type=natural, default=0, metavar="N", help="the partition (0)")
    parser.add_argument(
        "--rate",
        type=rate,
        metavar="N",
        help="records per second (without --rate: the next when one is read)",
    )
    parser.add_argument(
        "--timeout",
        type=rate,
        default=10.0,
        metavar="SECONDS",
        help="fail after this time without a record (10)",
    )


def _produce(arguments: argparse.Namespace, output: Output) -> int:
    from pykafka2.cli.perf.produce import measure

    return measure(arguments, output)


def _consume(arguments: argparse.Namespace, output: Output) -> int:
    from pykafka2.cli.perf.consume import measure

    return measure(arguments, output)


def _latency(arguments: argparse.Namespace, output: Output) -> int:
    from pykafka2.cli.perf.latency import measure

    return measure(arguments, output)
