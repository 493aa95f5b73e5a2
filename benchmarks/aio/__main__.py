"""The asyncio clients side by side: `python -m benchmarks.aio [--quick] [--bootstrap-servers HOST:PORT]`.

Each client runs in a process of its own, in turns; the figures are medians over the rounds, and the ratios
are medians of the ratios of a round. Without --bootstrap-servers the bundled broker runs in a process of its
own. Records have 100 bytes and no key; linger is 5 ms, or 0 for one at a time. acks and idempotence are the
same for all clients.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from statistics import median

import attrs

from benchmarks.aio.clients import CLIENTS, Figures, Task
from pykafka2 import KafkaAdminClient, KafkaProducer, NewTopic

OURS = "pykafka2.aio"
TARGETS = [
    ("send/s", "aiokafka", 3.0),
    ("getmany/s", "aiokafka", 1.3),
    ("async for/s", "aiokafka", 1.5),
    ("one at a time us", "aiokafka", 1.0),
    ("lag p99.9 ms", "aiokafka", 1.0),
    ("send/s", "pykafka2", 0.8),
    ("getmany/s", "pykafka2", 0.8),
]
"""Row, peer and target: at least for a rate, at most for a time."""


def play(client: str, task: Task) -> Figures:
    """Run one client in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.aio", "--play", client, json.dumps(attrs.asdict(task))]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        print(f"{client} failed:\n{ran.stderr[-2000:]}", file=sys.stderr)
        return {}
    return {row: float(figure) for row, figure in json.loads(ran.stdout.splitlines()[-1]).items()}


def play_rounds(servers: str, rounds: int, records: int, seconds: float) -> list[dict[str, Figures]]:
    played = []
    for number in range(rounds):
        figures: dict[str, Figures] = {}
        for client in list(CLIENTS)[:: -1 if number % 2 else 1]:
            topic = f"aio-{number}-{client.replace('.', '-')}"
            with KafkaAdminClient(bootstrap_servers=servers) as admin:
                admin.create_topics([NewTopic(topic, partitions=3)])
                admin.wait_for_topics([topic])
            with KafkaProducer(bootstrap_servers=servers) as producer:
                producer.send_many(topic, [bytes(100)] * records)
            figures[client] = play(client, Task(servers, topic, records, seconds))
        played.append(figures)
    return played


def table(played: list[dict[str, Figures]]) -> tuple[list[str], bool]:
    """Return the lines to print, and whether a target was missed."""
    rows = list(dict.fromkeys(row for one in played for figures in one.values() for row in figures))
    lines = [f"{'':20}" + "".join(f"{client:>22}" for client in CLIENTS)]
    for row in rows:
        cells = []
        for client in CLIENTS:
            found = [one[client][row] for one in played if row in one[client]]
            cells.append(f"{median(found):>22,.1f}" if found else f"{'-':>22}")
        lines.append(f"{row:20}" + "".join(cells))
    is_missed = False
    for row, peer, target in TARGETS:
        ratios = [one[OURS][row] / one[peer][row] for one in played if row in one[OURS] and row in one[peer]]
        if not ratios:
            continue
        ratio = median(ratios)
        is_rate = row.endswith("/s")
        is_met = ratio >= target if is_rate else ratio <= target
        is_missed = is_missed or not is_met
        sign = ">=" if is_rate else "<="
        lines.append(f"{row} over {peer}: {ratio:.2f}, target {sign} {target}{'' if is_met else ' MISSED'}")
    return lines, is_missed


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap-servers", help="Apache Kafka instead of the bundled broker")
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--play", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.play:
        client, task = arguments.play
        print(json.dumps(CLIENTS[client](Task(**json.loads(task)))))
        return 0
    rounds, records, seconds = (1, 100_000, 2.0) if arguments.quick else (5, 200_000, 60.0)
    if arguments.bootstrap_servers:
        lines, is_missed = table(play_rounds(arguments.bootstrap_servers, rounds, records, seconds))
    else:
        command = [sys.executable, "-m", "pykafka2.cli", "broker", "--port", "0", "--brokers", "1"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker:
            assert broker.stdout is not None
            servers = broker.stdout.readline().strip().removeprefix("bootstrap.servers=")
            try:
                lines, is_missed = table(play_rounds(servers, rounds, records, seconds))
            finally:
                broker.terminate()
    print("\n".join(lines))
    return int(is_missed)


if __name__ == "__main__":
    sys.exit(main())
