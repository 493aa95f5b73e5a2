"""ConsumerGroupCommand, GroupsCommand: all verbs, groups of both protocols, with members and without."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .asker import Asker
from .side import Answers, Side

GROUP_TIMEOUT = 20.0


@contextmanager
def members(side: Side, group: str, topic: str, protocol: str) -> Iterator[list[Any]]:
    """Two live members (librdkafka's) that share the topic's four partitions."""
    from confluent_kafka import Consumer

    options = {
        "bootstrap.servers": side.servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "group.protocol": protocol,
    }
    found: list[Any] = [Consumer({**options, "client.id": f"member-{number}"}) for number in (1, 2)]
    try:
        for one in found:
            one.subscribe([topic])
        deadline = time.monotonic() + GROUP_TIMEOUT
        while [len(one.assignment()) for one in found] != [2, 2]:
            assert time.monotonic() < deadline, "the members do not share the topic"
            for one in found:
                one.poll(0.05)
        yield found
    finally:
        for one in found:
            one.close()


def without_numbers(line: str) -> str:
    return re.sub(r"member-\d", "a member", line)


def groups(side: Side) -> Answers:
    from confluent_kafka import TopicPartition

    a = Asker(side)
    command = "consumer.group.ConsumerGroupCommand"
    a.ask("TopicCommand", "--create", "--topic", "grouped", "--partitions", 4)
    for partition in range(4):
        a.fill("grouped", 10, partition)
    for protocol in ("classic", "consumer"):
        group = f"g-{protocol}"
        of = ("--group", group)
        with members(side, group, "grouped", protocol) as pair:
            for one in pair:
                mine = [spot.partition for spot in one.assignment() if spot.partition < 2]
                for partition in mine:
                    one.commit(offsets=[TopicPartition("grouped", partition, 4)], asynchronous=False)
            a.ask(command, "--list", name=f"{protocol}: list")
            a.ask(command, "--list", "--state", ordered=False, name=f"{protocol}: list --state")
            a.ask(
                command, "--list", "--state", "stable", ordered=False, name=f"{protocol}: list --state stable"
            )
            a.ask(command, "--list", "--type", ordered=False, name=f"{protocol}: list --type")
            a.ask(command, "--list", "--type", protocol, ordered=False, name=f"{protocol}: list --type of it")
            for what in (
                [],
                ["--offsets"],
                ["--members"],
                ["--members", "--verbose"],
                ["--state"],
                ["--offsets", "--verbose"],
                ["--state", "--verbose"],
            ):
                # Which of them has which partitions is up to their random ids.
                a.ask(command, "--describe", *of, *what, ordered=False, tidy=without_numbers)
            a.ask(
                command,
                "--reset-offsets",
                *of,
                "--topic",
                "grouped",
                "--to-earliest",
                "--execute",
                ordered=False,
            )
            a.ask(command, "--delete", *of, name=f"{protocol}: delete with members")
            a.ask(
                command,
                "--delete-offsets",
                *of,
                "--topic",
                "grouped",
                ordered=False,
                name=f"{protocol}: delete-offsets with members",
            )
            a.ask("GroupsCommand", "--list", ordered=False, name=f"{protocol}: GroupsCommand")
        a.ask(command, "--describe", *of, ordered=False, name=f"{protocol}: describe, empty")
        a.ask(command, "--describe", *of, "--members", ordered=False, name=f"{protocol}: members, empty")
        a.ask(command, "--describe", *of, "--state", ordered=False, name=f"{protocol}: state, empty")
        resets: list[list[object]] = [
            ["--to-earliest"],
            ["--to-latest"],
            ["--to-offset", 3],
            ["--to-offset", 300],
            ["--shift-by", -1],
            ["--shift-by", 2],
            ["--to-current"],
            ["--by-duration", "PT1H"],
            ["--to-datetime", "2020-01-01T00:00:00.000"],
            ["--to-datetime", "2037-01-01T00:00:00.000"],
        ]
        for how in resets:
            a.ask(command, "--reset-offsets", *of, "--topic", "grouped:0,1", *how, "--execute", ordered=False)
        a.ask(command, "--reset-offsets", *of, "--all-topics", "--to-earliest", "--dry-run", ordered=False)
        a.ask(
            command,
            "--reset-offsets",
            *of,
            "--topic",
            "grouped",
            "--to-offset",
            5,
            "--export",
            "--dry-run",
            ordered=False,
        )
        plan = a.file("plan.csv", "\n".join(f"grouped,{number},{number}" for number in range(4)))
        a.ask(command, "--reset-offsets", *of, "--from-file", plan, "--execute", ordered=False)
        a.ask(
            command, "--reset-offsets", *of, "--topic", "unknown", "--to-earliest", "--execute", ordered=False
        )
        a.ask(command, "--delete-offsets", *of, "--topic", "grouped:1", ordered=False)
        a.ask(command, "--delete-offsets", *of, "--topic", "unknown", ordered=False)
        a.ask(command, "--describe", *of, ordered=False, name=f"{protocol}: describe at last")
        a.ask(command, "--delete", *of)
        a.ask(command, "--delete", *of, name=f"{protocol}: delete again")
        a.ask(command, "--describe", *of, name=f"{protocol}: describe when it is gone")
    a.ask(command, "--describe", "--all-groups", ordered=False)
    a.ask(
        command,
        "--reset-offsets",
        "--group",
        "of-nobody",
        "--topic",
        "grouped",
        "--to-latest",
        "--execute",
        ordered=False,
    )
    a.ask(command, "--delete", "--group", "of-nobody")
    a.ask("GroupsCommand", "--list", "--consumer")
    a.ask("GroupsCommand", "--list", "--share")
    a.ask("GroupsCommand", "--list", "--streams")
    a.ask("GroupsCommand", "--list", "--group-type", "classic", "--protocol", "consumer")
    return a.answers
