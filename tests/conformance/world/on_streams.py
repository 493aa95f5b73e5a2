"""Kafka Streams: our WordCount.java, two instances, one killed in the midst, under both guarantees.

Every word read is one record of topic "counts", with the count so far. Exactly once means that a reader of
committed records sees 1, 2, 3 ... of each word, without duplicates and gaps, whichever process died
meanwhile.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .side import Answers, Side

WORDS = [f"word{number}" for number in range(12)]
PARTITIONS = 4
TIMEOUT = 180.0
APP = "pykafka2.world.WordCount"


def streams(side: Side) -> Answers:
    answers: Answers = {}
    for topic in ("lines", "counts"):
        side.tool(
            "TopicCommand",
            "--bootstrap-server",
            side.servers,
            "--create",
            "--topic",
            topic,
            "--partitions",
            PARTITIONS,
            "--replication-factor",
            3,
        )
    for guarantee in ("exactly_once_v2", "at_least_once"):
        answers |= _one_dies(side, guarantee)
    answers |= _reset(side)
    answers |= _streams_protocol(side)
    return answers


def _one_dies(side: Side, guarantee: str) -> Answers:
    """Two instances count; one is killed; the other goes on, alone and then with a third."""
    name = guarantee.replace("_", "-")
    lines = Lines(side, prefix=f"{name}-")
    counts = Counts(side, name)
    with app(side, name, "1", guarantee) as first, app(side, name, "2", guarantee):
        lines.send(200)
        counts.read_until(lambda: counts.total >= 600, "the first counts")
        lines.send(300)
        counts.read_until(lambda: counts.total >= 900, "counts in the midst")
        first.kill()
        lines.send(300)
        counts.read_until(lambda: counts.reach(lines.words), "the survivor has counted all")
        with app(side, name, "3", guarantee) as third:
            lines.send(200)
            counts.read_until(lambda: counts.reach(lines.words), "both have counted all")
            assert third.poll() is None
    counts.read_on(1.0)
    counts.close()
    listed = side.tool("TopicCommand", "--bootstrap-server", side.servers, "--list")[1].split()
    what: Answers = {
        # Once more than was sent is allowed where a record may be processed twice.
        "words counted": counts.reach(lines.words),
        "internal topics": sorted(one for one in listed if one.startswith(f"{name}-")),
        "store's changelog": _configs(side, f"{name}-store-changelog"),
        "repartition topic": _configs(side, f"{name}-words-repartition"),
    }
    if guarantee == "exactly_once_v2":
        what["no word too many"] = counts.best == lines.words
        what["each count once, in order"] = all(
            seen == list(range(1, len(seen) + 1)) for seen in counts.seen.values()
        )
    return {f"{guarantee}: {key}": value for key, value in what.items()}


def _configs(side: Side, topic: str) -> list[str]:
    """Settings that Streams requested when it created the topic."""
    _, output = side.tool("TopicCommand", "--bootstrap-server", side.servers, "--describe", "--topic", topic)
    head, _, configs = side.plain(output)[0].partition("Configs: ")
    return [head, *sorted(configs.split(","))]


def _reset(side: Side) -> Answers:
    """kafka-streams-application-reset: the group is where it began, the internal topics are gone."""
    arguments = (
        "--bootstrap-server",
        side.servers,
        "--application-id",
        "at-least-once",
        "--input-topics",
        "lines",
    )
    status, dry = side.tool("StreamsResetter", *arguments, "--dry-run", "--force")
    answers: Answers = {"reset, dry run": (status, sorted(side.plain(dry)))}
    status, output = side.tool("StreamsResetter", *arguments, "--force")
    answers["reset"] = (status, sorted(side.plain(output)))
    listed = side.tool("TopicCommand", "--bootstrap-server", side.servers, "--list")[1].split()
    answers["reset: internal topics left"] = [one for one in listed if one.startswith("at-least-once-")]
    # After a reset it counts from one again: the changelog and the group's offsets are gone.
    counts = Counts(side, "at-least-once")
    with app(side, "at-least-once", "4", "at_least_once"):
        counts.read_until(lambda: counts.times_begun >= 2, "counts from one")
    counts.close()
    answers["reset: every word is counted from one again"] = counts.times_begun
    return answers


def _streams_protocol(side: Side) -> Answers:
    """group.protocol=streams is answered, or refused with a reason."""
    before = len(_log(side))
    with app(side, "streams-protocol", "9", "at_least_once", "group.protocol=streams"):
        said = ""
        deadline = time.monotonic() + 30
        while "STATE RUNNING" not in said and "FAILED" not in said:
            assert time.monotonic() < deadline, f"neither running nor failed: {said}"
            time.sleep(0.1)
            said = _log(side)[before:]
    failed = [line for line in said.splitlines() if line.startswith("FAILED")]
    return {"group.protocol=streams": failed[0] if failed else "runs"}


def _log(side: Side) -> str:
    path = side.folder / "WordCount.log"
    return path.read_text(errors="replace") if path.exists() else ""


@contextmanager
def app(
    side: Side, name: str, instance: str, guarantee: str, *more: str
) -> Iterator[subprocess.Popen[bytes]]:
    """One instance, closed in order at the end unless it is dead by then."""
    options = {
        "bootstrap.servers": side.servers,
        "application.id": name,
        "client.id": instance,
        "processing.guarantee": guarantee,
        "state.dir": str(side.folder / f"state-{name}-{instance}"),
        "commit.interval.ms": "100",
        "replication.factor": "3",
        "consumer.auto.offset.reset": "earliest",
        "consumer.session.timeout.ms": "6000",
        "consumer.heartbeat.interval.ms": "500",
        "metadata.max.age.ms": "1000",
    }
    with side.process(APP, *(f"{key}={value}" for key, value in options.items()), *more) as process:
        yield process
        if process.poll() is None:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=30)


class Lines:
    """Sends lines of three words each, in turn, from librdkafka's producer."""

    def __init__(self, side: Side, prefix: str) -> None:
        from confluent_kafka import Producer

        self._producer = Producer({"bootstrap.servers": side.servers, "linger.ms": 5})
        self._prefix = prefix
        self._next = 0
        self.words: dict[str, int] = {}
        """How often each word was sent."""

    def send(self, count: int) -> None:
        for _ in range(count):
            words = [f"{self._prefix}{WORDS[(self._next * 7 + step) % len(WORDS)]}" for step in range(3)]
            self._producer.produce("lines", " ".join(words).encode(), partition=self._next % PARTITIONS)
            self._next += 1
            for word in words:
                self.words[word] = self.words.get(word, 0) + 1
        assert self._producer.flush(30) == 0


class Counts:
    """Reads committed records of topic "counts"; the counts of each word in the order they came."""

    def __init__(self, side: Side, name: str) -> None:
        from confluent_kafka import Consumer, TopicPartition

        self._consumer: Any = Consumer(
            {
                "bootstrap.servers": side.servers,
                "group.id": f"reader-of-{name}",
                "auto.offset.reset": "earliest",
            }
        )
        self._consumer.assign([TopicPartition("counts", number, 0) for number in range(PARTITIONS)])
        self._name = name
        self._log = side.folder / "WordCount.log"
        self.seen: dict[str, list[int]] = {}

    @property
    def total(self) -> int:
        return sum(map(len, self.seen.values()))

    @property
    def best(self) -> dict[str, int]:
        return {word: max(seen) for word, seen in self.seen.items()}

    @property
    def times_begun(self) -> int:
        """How often each word was counted as its first."""
        return min((seen.count(1) for seen in self.seen.values()), default=0)

    def reach(self, words: dict[str, int]) -> bool:
        return all(self.best.get(word, 0) >= count for word, count in words.items())

    def read_on(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for message in self._consumer.consume(500, 0.1):
                assert message.error() is None, message.error()
                word = message.key().decode()
                if word.startswith(self._name):
                    self.seen.setdefault(word, []).append(int(message.value()))

    def read_until(self, come: Any, what: str) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not come():
            assert time.monotonic() < deadline, (
                f"not within time: {what}; {self.best}\n{self._log.read_text()[-3000:]}"
            )
            self.read_on(0.1)

    def close(self) -> None:
        self._consumer.close()
