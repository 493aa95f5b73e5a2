"""Members of consumer groups, behind one face: Java's, librdkafka's (in both protocols), Python's, and ours.

`group_member(library, ...)` joins; a member does its work while it is polled. Values are read as bytes;
positions are committed on request, never automatically.
"""

from __future__ import annotations

import asyncio
import importlib
import queue
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any, Protocol

from .bridge import Bridge, unb64
from .peers import TIMEOUT, _kafka_python

LIBRARIES = (
    "pykafka2",
    "pykafka2 with KIP-848",
    "kafka-python",
    "aiokafka",
    "confluent",
    "confluent with KIP-848",
)

HEARTBEAT_MS = 300
"""So that members hear of a rebalance soon; in KIP-848 the broker says how often."""


SESSION_MS = 60_000
"""For aiokafka, which heartbeats only while it is called here; its default is 10 s."""


METADATA_AGE_MS = 1000
"""So that a leader that did not see the topic yet, when it assigned, looks again soon."""


class GroupMember(Protocol):
    """A consumer that has subscribed to one topic in a group."""

    def poll(self, seconds: float) -> list[bytes]:
        """Values that have come, and whatever a rebalance asks for."""

    def owned(self) -> set[int]:
        """The topic's partitions that it owns now."""

    def commit(self) -> None:
        """Commit what was polled, and wait for it."""

    def close(self) -> None:
        """Leave the group."""


class OurMember:
    """pykafka2."""

    def __init__(self, bootstrap_servers: str, group_id: str, topic: str, **options: Any) -> None:
        from pykafka2 import KafkaConsumer

        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap_servers,
            group_id=group_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **options,
        )

    def poll(self, seconds: float) -> list[bytes]:
        polled = self._consumer.poll(timeout_ms=round(seconds * 1000))
        return [record.value for records in polled.values() for record in records]

    def owned(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def commit(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close()


class ConfluentMember:
    """confluent-kafka, that is librdkafka."""

    def __init__(
        self, bootstrap_servers: str, group_id: str, topic: str, protocol: str, assignor: str = ""
    ) -> None:
        from confluent_kafka import Consumer

        options: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group_id,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        if protocol == "classic":
            options["heartbeat.interval.ms"] = HEARTBEAT_MS
        if assignor:
            options["partition.assignment.strategy"] = assignor
        self._consumer = Consumer(options)
        self._consumer.subscribe([topic])

    def poll(self, seconds: float) -> list[bytes]:
        messages = self._consumer.consume(100, timeout=seconds)
        assert not [message.error() for message in messages if message.error() is not None]
        return [message.value() or b"" for message in messages]

    def owned(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def commit(self) -> None:
        from confluent_kafka import KafkaError, KafkaException

        try:
            for one in self._consumer.commit(asynchronous=False) or []:
                assert one.error is None, one
        except KafkaException as error:
            # It has read nothing since it was given its partitions: so there is nothing to commit.
            if error.args[0].code() != KafkaError._NO_OFFSET:
                raise

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonMember:
    """kafka-python, which a thread of its own polls all the time.

    It forgets a join that ends between two polls, and joins again (seen in 3.0.12): two members that one
    thread polled in turn rebalanced for ever, now and then.  So it may have read a little more than `poll`
    has returned, and `commit` commits that, too.
    """

    def __init__(self, bootstrap_servers: str, group_id: str, topic: str, **options: Any) -> None:
        self._consumer: Any = _kafka_python().KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap_servers,
            group_id=group_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=HEARTBEAT_MS,
            metadata_max_age_ms=METADATA_AGE_MS,
            **options,
        )
        # Its first request for metadata names no topic.  A leader that assigns before the next answer came
        # owns nothing ("No partition metadata for topic"), and now and then never assigns again.
        assert self._consumer.partitions_for_topic(topic)
        self._values: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._is_closing = False
        self._thread = ThreadPoolExecutor(1)
        self._polling = self._thread.submit(self._keep_polling)

    def _keep_polling(self) -> None:
        """Poll once, then stand in line again behind calls that wait."""
        for records in self._consumer.poll(timeout_ms=100).values():
            for record in records:
                self._values.put(record.value)
        if not self._is_closing:
            self._polling = self._thread.submit(self._keep_polling)

    def poll(self, seconds: float) -> list[bytes]:
        if self._polling.done():
            self._polling.result()  # Raises what has ended it.
        try:
            values = [self._values.get(timeout=seconds)]
        except queue.Empty:
            return []
        while not self._values.empty():
            values.append(self._values.get())
        return values

    def owned(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def commit(self) -> None:
        self._thread.submit(self._consumer.commit).result(TIMEOUT)

    def close(self) -> None:
        self._is_closing = True
        with self._thread:
            self._thread.submit(self._consumer.close).result(TIMEOUT)


class AiokafkaMember:
    """aiokafka, in a loop of its own that runs during calls only.

    The runner's end lets the loop go round until transports that aiokafka has closed are closed; a loop that
    is closed at once leaves them to the collector, which warns.
    """

    def __init__(self, bootstrap_servers: str, group_id: str, topic: str, **options: Any) -> None:
        self._runner = asyncio.Runner()
        self._consumer: Any = None

        async def start() -> None:
            from aiokafka import AIOKafkaConsumer

            self._consumer = AIOKafkaConsumer(
                topic,
                bootstrap_servers=bootstrap_servers,
                group_id=group_id,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                heartbeat_interval_ms=HEARTBEAT_MS,
                session_timeout_ms=SESSION_MS,
                metadata_max_age_ms=METADATA_AGE_MS,
                **options,
            )
            # Its start waits for the first rebalance, which may wait for members that are polled here, too.
            self._started = asyncio.ensure_future(self._consumer.start())

        self._runner.run(start())

    def _run(self, work: Any) -> Any:
        return self._runner.run(asyncio.wait_for(work, TIMEOUT))

    def poll(self, seconds: float) -> list[bytes]:
        async def poll() -> list[bytes]:
            await asyncio.wait([self._started], timeout=seconds)
            if not self._started.done():
                return []
            self._started.result()
            polled = await self._consumer.getmany(timeout_ms=round(seconds * 1000))
            return [record.value for records in polled.values() for record in records]

        values: list[bytes] = self._run(poll())
        return values

    def owned(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def commit(self) -> None:
        self._run(self._consumer.commit())

    def close(self) -> None:
        with self._runner:
            self._run(self._started)
            self._run(self._consumer.stop())


class JavaMember:
    """Apache Kafka's own, behind the bridge."""

    _numbers = count(1)

    def __init__(
        self, java: Bridge, bootstrap_servers: str, group_id: str, topic: str, protocol: str, assignor: str
    ) -> None:
        self._java = java
        self._name = f"{group_id}-java-{next(self._numbers)}"
        self._owned: set[int] = set()
        options: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group_id,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "metadata.max.age.ms": METADATA_AGE_MS,
        }
        if protocol == "classic":
            options["heartbeat.interval.ms"] = HEARTBEAT_MS
        if assignor:
            options["partition.assignment.strategy"] = JAVA_ASSIGNORS[assignor]
        self._step("join", topic=topic, options={name: str(value) for name, value in options.items()})

    def _step(self, do: str, **more: Any) -> Any:
        (answer,) = self._java("member_step", [{"member": self._name, "do": do, **more}])
        self._owned = set(answer.get("owned", ()))
        return answer

    def poll(self, seconds: float) -> list[bytes]:
        return [unb64(value) or b"" for value in self._step("poll", ms=round(seconds * 1000))["values"]]

    def owned(self) -> set[int]:
        return self._owned

    def commit(self) -> None:
        self._step("commit")

    def close(self) -> None:
        self._step("leave")


JAVA_ASSIGNORS = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "sticky": "org.apache.kafka.clients.consumer.StickyAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}


def group_member(
    library: str,
    bootstrap_servers: str,
    group_id: str,
    topic: str,
    assignor: str = "",
    java: Bridge | None = None,
) -> GroupMember:
    """A new member that reads `topic` from the group's commits on, or from its beginning.

    `assignor` is the one that it offers ("range", "roundrobin", "cooperative-sticky"), if not its default.
    The bridge is needed for "java" and "java with KIP-848".
    """
    if library.startswith("java"):
        assert java is not None
        protocol = "consumer" if library == "java with KIP-848" else "classic"
        return JavaMember(java, bootstrap_servers, group_id, topic, protocol, assignor)
    if library == "pykafka2 with KIP-848":
        return OurMember(bootstrap_servers, group_id, topic, group_protocol="consumer")
    if library in ("pykafka2", "kafka-python", "aiokafka"):
        options: dict[str, Any] = {}
        if library == "pykafka2":
            options["heartbeat_interval_ms"] = HEARTBEAT_MS
        if assignor:
            options["partition_assignment_strategy"] = _assignor(library, assignor)
        made = {"pykafka2": OurMember, "kafka-python": KafkaPythonMember, "aiokafka": AiokafkaMember}[library]
        member: GroupMember = made(bootstrap_servers, group_id, topic, **options)
        return member
    protocol = "consumer" if library == "confluent with KIP-848" else "classic"
    return ConfluentMember(bootstrap_servers, group_id, topic, protocol, assignor)


def _assignor(library: str, name: str) -> Any:
    if library == "pykafka2":
        return name
    classes = {
        "range": "range.RangePartitionAssignor",
        "roundrobin": "roundrobin.RoundRobinPartitionAssignor",
        "cooperative-sticky": "cooperative_sticky.CooperativeStickyAssignor",
    }
    module, _, class_name = classes[name].rpartition(".")
    package = "aiokafka"
    if library == "kafka-python":
        package = _kafka_python().__name__
    found = importlib.import_module(f"{package}.coordinator.assignors.{module}")
    return [getattr(found, class_name)]
