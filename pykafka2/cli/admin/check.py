"""Check each broker of a cluster from this host, step by step, before programs rely on it.

Each address of -b and each address that the brokers advertise is resolved, connected and used with the same
options as a program's client. A failed step is printed with its cause and what to do.

  dns            the name resolves
  port           the port accepts connections
  tls            the handshake succeeds; shows the certificate's names, dates and issuer
  api_versions   a Kafka broker of a supported version responds
  sasl           the credentials are accepted
  metadata       the broker describes the cluster
  identity       the advertised address leads to the broker that advertises it
  agreement      all brokers describe the same cluster
  partitions     every partition has a leader
  versions       all brokers have the same version
  clock          the controller's clock is that of this host; with --clock-topic, each broker's is

The exit code is 0 if no step failed, 1 otherwise; a warning, such as a certificate that expires within 30
days, is no failure.

examples:
  pykafka2 check -b broker-1:9092,broker-2:9092
  pykafka2 check --config client.properties --details
  pykafka2 check --profile production --json | jq '.brokers[] | select(.passed | not)'
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pykafka2.cli.common import connection
from pykafka2.cli.common import output as outputs
from pykafka2.cli.common.changes import checked
from pykafka2.cli.common.output import Output
from pykafka2.cli.common.parsing import Parser, rate
from pykafka2.text import counted

if TYPE_CHECKING:
    from pykafka2.admin import CheckStep, ClusterCheck

SUMMARY = "check each broker from this host: DNS, port, TLS, SASL, versions, listeners, clock"
BROKER_STEPS = ("dns", "port", "tls", "api_versions", "sasl", "metadata", "identity")


def configure(parser: Parser) -> None:
    """Add this verb's options."""
    parser.add_argument(
        "--timeout",
        type=rate,
        default=5.0,
        metavar="SECONDS",
        help="the limit of each step; all addresses are checked at the same time (5)",
    )
    parser.add_argument(
        "--max-clock-skew",
        type=rate,
        default=5.0,
        metavar="SECONDS",
        help="fail if a clock differs from this host's by more (5)",
    )
    parser.add_argument(
        "--clock-topic",
        metavar="TOPIC",
        help="also compare the clock of each broker: writes records to this topic, which needs "
        "message.timestamp.type=LogAppendTime",
    )
    parser.add_argument("--details", action="store_true", help="print what each step has found")
    connection.add_options(parser)
    outputs.add_options(parser)


@checked
def run(arguments: argparse.Namespace, output: Output) -> int:
    """Check the cluster; return 0 if no step failed."""
    with connection.admin(arguments) as client:
        result = client.check_cluster(
            timeout=arguments.timeout,
            max_clock_skew=arguments.max_clock_skew,
            clock_topic=arguments.clock_topic,
        )
    if output.is_json:
        output.json(result.as_dict())
    else:
        _print(result, output, arguments.details)
    return 0 if result.has_passed else 1


def _print(result: ClusterCheck, output: Output, has_details: bool) -> None:
    rows = []
    has_clock = any(step.name == "clock" for broker in result.brokers for step in broker.steps)
    names = (*BROKER_STEPS, *(["clock"] if has_clock else []))
    for broker in result.brokers:
        steps = {step.name: step for step in broker.steps}
        number = "bootstrap" if broker.broker_id is None else broker.broker_id
        rows.append([broker.address, number, *(_shown(steps.get(name)) for name in names)])
    styles = dict.fromkeys(names, _style)
    output.table(["address", "broker", *names], rows, styles=styles, quiet=("tls", "sasl"))
    output.line("")
    for step in result.steps:
        output.line(f"{step.name:<12} {step.status:<8} {step.detail}", _style(_shown(step)))
    every = [(broker.address, step) for broker in result.brokers for step in broker.steps]
    if has_details:
        output.line("")
        for address, step in every:
            output.line(f"{address}  {step.name:<12} {step.status:<8} {step.detail}", _style(_shown(step)))
    problems = [one for one in [*every, *(("cluster", step) for step in result.steps)] if one[1].fix]
    for address, step in problems:
        output.line("")
        output.line(f"{step.status.upper()} {address}, {step.name}", _style(_shown(step)))
        output.line(f"  cause: {step.detail}")
        output.line(f"  fix:   {step.fix}")
    output.line("")
    failed = sum(not broker.has_passed for broker in result.brokers)
    every_address = counted(result.brokers, "address", "addresses")
    if result.has_passed:
        several = "" if len(result.brokers) == 1 else "All "
        output.line(f"{several}{every_address} passed.", "good")
    else:
        output.line(f"{failed} of {every_address} failed." if failed else "The cluster failed.", "bad")


def _shown(step: CheckStep | None) -> str | None:
    if step is None or step.status == "skipped":
        return None
    if step.status == "ok":
        return "ok" if step.seconds is None else f"{step.seconds * 1000:.0f} ms"
    return step.status.upper()


def _style(text: str | None) -> str:
    if text is None:
        return ""
    return "bad" if text == "FAILED" else "warning" if text.isupper() else "good"
