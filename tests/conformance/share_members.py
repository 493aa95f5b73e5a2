"""Members of a share group, each in a process of its own, which can be killed at any moment.

    python -m tests.conformance.share_members KIND SERVERS GROUP FILE TOPIC ...

runs until it is killed. Before a member accepts records, it writes a line for each of them to the file:
`taken`, topic, partition, offset, and delivery count. After the broker has confirmed them it writes
`accepted` with the same place. Java's VerifiableShareConsumer prints the same as JSON, without the counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import attrs

from tests.aio.running import run

from .maven import KafkaJars

POLL_RECORDS = 100
Place = tuple[str, int, int]
"""Topic, partition and offset."""


class Diary:
    """The lines of one member. A line that was written survives the process."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)

    def taken(self, records: Iterable[tuple[str, int, int, int]]) -> None:
        self._write("taken", records)

    def accepted(self, places: Iterable[Place]) -> None:
        self._write("accepted", ((*place, 0) for place in places))

    def _write(self, event: str, rows: Iterable[tuple[str, int, int, int]]) -> None:
        lines = "".join(f"{event} {topic} {number} {at} {count}\n" for topic, number, at, count in rows)
        os.write(self._file, lines.encode())


def _place(record: Any) -> Place:
    return record.topic, record.partition, record.offset


def _confirmed(records: list[Any], results: dict[Any, Any]) -> Iterator[Place]:
    for record in records:
        partition = (record.topic, record.partition)
        if partition in results and results[partition] is None:
            yield _place(record)


def _options(servers: str, group: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": servers,
        "group_id": group,
        "share_acknowledgement_mode": "explicit",
        "max_poll_records": POLL_RECORDS,
    }


def sync_member(servers: str, group: str, diary: Diary, topics: list[str]) -> None:
    from pykafka2 import KafkaShareConsumer

    with KafkaShareConsumer(*topics, **_options(servers, group)) as member:
        while True:
            records = [record for of in member.poll(500).values() for record in of]
            diary.taken((*_place(record), record.delivery_count) for record in records)
            for record in records:
                with record:
                    pass
            diary.accepted(_confirmed(records, member.commit()))


def aio_member(servers: str, group: str, diary: Diary, topics: list[str]) -> None:
    from pykafka2 import aio

    async def work() -> None:
        async with aio.KafkaShareConsumer(*topics, **_options(servers, group)) as member:
            while True:
                records = [record for of in (await member.poll(500)).values() for record in of]
                diary.taken((*_place(record), record.delivery_count) for record in records)
                for record in records:
                    async with record:
                        pass
                diary.accepted(_confirmed(records, await member.commit()))

    run(work(), stall=None)


def confluent_member(servers: str, group: str, diary: Diary, topics: list[str]) -> None:
    from confluent_kafka import ShareConsumer

    member: Any = ShareConsumer(
        {"bootstrap.servers": servers, "group.id": group, "max.poll.records": POLL_RECORDS}
    )
    member.subscribe(topics)
    while True:
        records = [
            (message.topic(), message.partition(), message.offset(), message.delivery_count() or 1)
            for message in member.poll(timeout=0.5) or ()
            if message.error() is None
        ]
        diary.taken(records)
        if records:
            results = {(one.topic, one.partition): error for one, error in member.commit_sync(30.0).items()}
            diary.accepted(one[:3] for one in records if results.get(one[:2], one) is None)


MEMBERS = {"sync": sync_member, "asyncio": aio_member, "confluent": confluent_member}
JAVA = "java"
KINDS = [*MEMBERS, JAVA]


@attrs.define
class Member:
    """A running member and its file."""

    kind: str
    path: Path
    process: subprocess.Popen[bytes]

    @classmethod
    def start(
        cls, kind: str, jars: KafkaJars | None, servers: str, group: str, path: Path, topics: list[str]
    ) -> Member:
        if kind == JAVA:
            assert jars is not None
            # The tool reads one topic.
            arguments = {"--bootstrap-server": servers, "--group-id": group, "--topic": topics[0]}
            command = [*jars.java("org.apache.kafka.tools.VerifiableShareConsumer"), "--verbose"]
            command += ["--acknowledgement-mode", "sync", "--max-messages", "-1"]
            command += [word for option in arguments.items() for word in option]
        else:
            command = [sys.executable, "-m", __name__, kind, servers, group, str(path), *topics]
        with path.with_suffix(".err").open("ab") as errors, path.open("ab") as printed:
            stdout = printed if kind == JAVA else errors
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=errors)
        return cls(kind, path, process)

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self.process.kill()
        self.process.wait(30)

    def taken(self) -> int:
        """Return how many records it has taken so far."""
        event = b'"record_data"' if self.kind == JAVA else b"taken "
        return self.path.read_bytes().count(event) if self.path.exists() else 0

    def errors(self) -> str:
        """Return the end of what the process printed besides."""
        return self.path.with_suffix(".err").read_text(errors="replace")[-2000:]


@attrs.define
class Reading:
    """The lines of all members of a group, counted by record."""

    taken: Counter[Place] = attrs.Factory(Counter)
    first: Counter[Place] = attrs.Factory(Counter)
    """How often a record was taken with the delivery count 1."""
    uncounted: Counter[Place] = attrs.Factory(Counter)
    """How often a record was taken by a member that does not tell the delivery count."""
    accepted: Counter[Place] = attrs.Factory(Counter)
    """How often a broker confirmed that a record is accepted."""
    by_kind: Counter[str] = attrs.Factory(Counter)

    @classmethod
    def of(cls, members: Iterable[Member]) -> Reading:
        found = cls()
        for member in members:
            text = member.path.read_text(errors="replace") if member.path.exists() else ""
            lines = text.split("\n")[:-1]  # the last one can be cut off by a kill
            for line in lines:
                if member.kind == JAVA:
                    found._read_java(line)
                else:
                    found._read(member.kind, line)
        return found

    def _read(self, kind: str, line: str) -> None:
        event, topic, partition, offset, count = line.split()
        place = (topic, int(partition), int(offset))
        if event == "accepted":
            self.accepted[place] += 1
            return
        self.taken[place] += 1
        self.by_kind[kind] += 1
        self.first[place] += count == "1"

    def _read_java(self, line: str) -> None:
        if not line.startswith("{") or not line.endswith("}"):
            return
        event = json.loads(line)
        if event["name"] == "record_data":
            place = (event["topic"], event["partition"], event["offset"])
            self.taken[place] += 1
            self.uncounted[place] += 1
            self.by_kind[JAVA] += 1
        elif event["name"] == "offsets_acknowledged" and event["success"]:
            for of in event["partitions"]:
                self.accepted.update((of["topic"], of["partition"], offset) for offset in of["offsets"])


def main(kind: str, servers: str, group: str, path: str, *topics: str) -> None:
    MEMBERS[kind](servers, group, Diary(path), [*topics])


if __name__ == "__main__":
    main(*sys.argv[1:])
