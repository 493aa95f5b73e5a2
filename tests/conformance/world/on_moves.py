"""ReassignPartitionsCommand, LeaderElectionCommand and TransactionsCommand with all their verbs."""

from __future__ import annotations

import re
import time
from typing import Any

from .asker import Asker
from .side import Answers, Side


def taken_back(side: Side) -> Answers:
    """A move that makes no progress, throttled to a byte a second: described, then cancelled."""
    a = Asker(side)
    command = "reassign.ReassignPartitionsCommand"
    a.ask("TopicCommand", "--create", "--topic", "heavy", "--replica-assignment", "0:1")
    # More than a follower fetches at once: a throttle counts only what went before.
    size = ("--num-records", 40, "--record-size", 100_000, "--throughput", -1)
    to = ("--topic", "heavy", "--producer-props", f"bootstrap.servers={side.servers}", "acks=all")
    side.tool("ProducerPerformance", *size, *to)
    side.stop_followers()
    spots = [{"topic": "heavy", "partition": 0, "replicas": [0, 2], "log_dirs": ["any", "any"]}]
    plan = ("--reassignment-json-file", a.file("heavy.json", {"version": 1, "partitions": spots}))
    a.ask(command, "--execute", *plan, "--throttle", 1)
    time.sleep(1)
    a.ask(command, "--list", name="list of what is moved")
    a.ask(command, "--verify", *plan)
    a.ask("TopicCommand", "--describe", "--topic", "heavy", name="while it is moved")
    a.ask("TopicCommand", "--describe", "--under-replicated-partitions", "--topic", "heavy")
    a.ask(command, "--execute", *plan, name="once more")
    a.ask(command, "--cancel", *plan)
    a.ask(command, "--list", name="list when it is cancelled")
    a.ask("TopicCommand", "--describe", "--topic", "heavy", name="when it is cancelled")
    return a.answers


def reassignments(side: Side) -> Answers:
    a = Asker(side)
    command = "reassign.ReassignPartitionsCommand"
    a.ask("TopicCommand", "--create", "--topic", "moved", "--replica-assignment", "0:1,1:2")
    a.fill("moved", 20)

    def spot(partition: int, *replicas: int) -> dict[str, object]:
        return {
            "topic": "moved",
            "partition": partition,
            "replicas": replicas,
            "log_dirs": ["any"] * len(replicas),
        }

    def plan(name: str, *spots: dict[str, object]) -> str:
        return a.file(name, {"version": 1, "partitions": spots})

    moved = a.file("moved.json", {"version": 1, "topics": [{"topic": "moved"}]})
    a.ask(
        command,
        "--generate",
        "--topics-to-move-json-file",
        moved,
        "--broker-list",
        "0,1,2",
        keep=lambda line: "{" not in line,
    )
    first = plan("first.json", spot(0, 1, 2), spot(1, 2, 0))
    a.ask(command, "--execute", "--reassignment-json-file", first, "--throttle", 100_000_000)
    time.sleep(1.5)
    a.ask(command, "--verify", "--reassignment-json-file", first)
    a.ask("TopicCommand", "--describe", "--topic", "moved", name="where it is")
    a.ask(command, "--list")
    a.ask(command, "--execute", "--reassignment-json-file", plan("far.json", spot(0, 1, 77)))
    a.ask(command, "--execute", "--reassignment-json-file", plan("twice.json", spot(0, 1, 1)))
    a.ask(command, "--execute", "--reassignment-json-file", plan("absent.json", spot(9, 1, 2)))
    a.ask(command, "--cancel", "--reassignment-json-file", first)
    a.ask(
        command,
        "--verify",
        "--reassignment-json-file",
        first,
        "--preserve-throttles",
        name="verify, throttles kept",
    )
    a.answers |= taken_back(side)
    for arguments in (
        ["--topic", "moved", "--partition", 0],
        ["--topic", "moved", "--partition", 9],
        ["--all-topic-partitions"],
    ):
        for kind in ("preferred", "unclean"):
            a.ask(
                "LeaderElectionCommand",
                "--election-type",
                kind,
                *arguments,
                ordered=False,
                keep=lambda line: "__" not in line,
            )
    spots = {"partitions": [{"topic": "moved", "partition": 1}]}
    a.ask(
        "LeaderElectionCommand",
        "--election-type",
        "preferred",
        "--path-to-json-file",
        a.file("elect.json", spots),
    )
    return a.answers


PRODUCERS = [
    (r"^tool-open \d \d+", "tool-open <broker> <producer>"),
    (r"^\d tool-open \d+ (.*) <time> \d+", r"<broker> tool-open <producer> \1 <time> <duration>"),
    (r"^\d+ (\d -?\d+ \d <time>)", r"<producer> \1"),
    (r"sent to broker \d", "sent to broker <broker>"),
]


def without_producers(line: str) -> str:
    """A line of TransactionsCommand without ids of producers and coordinators."""
    for pattern, replacement in PRODUCERS:
        line = re.sub(pattern, replacement, line)
    return line


def transactions(side: Side) -> Answers:
    from confluent_kafka import Producer

    a = Asker(side)
    command = "TransactionsCommand"
    a.ask("TopicCommand", "--create", "--topic", "traded", "--replica-assignment", "0:1:2,1:2:0")
    time.sleep(0.5)
    producer = Producer(
        {"bootstrap.servers": side.servers, "transactional.id": "tool-open", "transaction.timeout.ms": 60_000}
    )
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("traded", b"open", partition=0)
    producer.flush(10)

    def ask(*arguments: object, **options: Any) -> None:
        a.ask(command, *arguments, tidy=without_producers, **options)

    ask("list", ordered=False)
    ask("list", "--duration-filter", 600_000, ordered=False)
    ask("list", "--transactional-id-pattern", "tool-.*", ordered=False)
    ask("list", "--transactional-id-pattern", "(", ordered=False)
    ask("describe", "--transactional-id", "tool-open")
    ask("describe", "--transactional-id", "tool-unknown")
    ask("describe-producers", "--topic", "traded", "--partition", 0)
    ask("describe-producers", "--topic", "traded", "--partition", 0, "--broker-id", 2)
    ask("find-hanging", "--broker-id", 0)
    ask("find-hanging", "--topic", "traded", "--max-transaction-timeout", 1)
    ask("abort", "--topic", "traded", "--partition", 0, "--start-offset", 0)
    ask("abort", "--topic", "traded", "--partition", 0, "--start-offset", 7)
    ask("describe-producers", "--topic", "traded", "--partition", 0, name="describe-producers after abort")
    ask("force-terminate", "--transactional-id", "tool-unknown")
    ask("force-terminate", "--transactional-id", "tool-open")
    ask("describe", "--transactional-id", "tool-open", name="describe after force-terminate")
    del producer
    return a.answers
