"""Java's, confluent-kafka's and our share consumers in one group, on our broker and on Apache Kafka."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient, KafkaProducer, KafkaShareConsumer, aio
from pykafka2.admin.config_values import ConfigResource, ConfigResourceType
from pykafka2.protocol.messages.share_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from pykafka2.testing import KafkaCluster
from tests.aio.running import run
from tests.broker.support.raw_client import RawClient

from .bridge import Bridge
from .brokers import Cluster
from .maven import KafkaJars
from .real_kafka import QUICK_GROUPS
from .share_members import KINDS, Member, Reading

pytestmark = pytest.mark.real_kafka

RECORDS = 1500
TRICKLE = 20
"""Records of each topic at once, until all members of a group have taken some."""
PATIENCE = 180.0
OF_JAVA = 200
"""Records after which Java's tool ends."""


class SharedQueue:
    """A topic of two partitions with values that differ, and what each client has accepted."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.topics = [cluster.new_topic(partitions=2) for _ in range(2)]
        self.group = f"{self.topics[0]}-workers"
        self.sent = {
            b"%s %d" % (topic.encode(), number) for topic in self.topics for number in range(RECORDS)
        }
        self.accepted: Counter[bytes] = Counter()
        self.by_client: Counter[str] = Counter()
        self.redelivered: set[bytes] = set()
        self._lock = threading.Lock()
        servers = cluster.bootstrap_servers
        with KafkaAdminClient(bootstrap_servers=servers) as admin:
            resource = ConfigResource(ConfigResourceType.GROUP, self.group)
            admin.alter_configs({resource: {"share.auto.offset.reset": "earliest"}})
        self.producer = KafkaProducer(bootstrap_servers=servers)

    def fill(self) -> None:
        for value in sorted(self.sent):
            self.producer.send(value.split()[0].decode(), value)
        self.producer.close()

    def note(self, client: str, value: bytes, count: int = 1) -> None:
        with self._lock:
            self.accepted[value] += 1
            self.by_client[client] += 1
            if count > 1:
                self.redelivered.add(value)

    @property
    def is_done(self) -> bool:
        return len(self.accepted) == len(self.sent)

    def options(self) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.cluster.bootstrap_servers,
            "group_id": self.group,
            "share_acknowledgement_mode": "explicit",
            "consumer_timeout_ms": 200,
            "max_poll_records": 50,
        }

    def ours(self) -> None:
        with KafkaShareConsumer(*self.topics, **self.options()) as member:
            while not self.is_done:
                for record in member:
                    with record:
                        value = record.value or b""
                    self.note("sync", value, record.delivery_count)
            assert set(member.commit().values()) <= {None}

    def asynchronous(self) -> None:
        async def work() -> None:
            async with aio.KafkaShareConsumer(*self.topics, **self.options()) as member:
                while not self.is_done:
                    async for record in member:
                        async with record:
                            value = record.value or b""
                        self.note("asyncio", value, record.delivery_count)
                assert set((await member.commit()).values()) <= {None}

        run(work(), stall=PATIENCE)

    def confluent(self) -> None:
        from confluent_kafka import ShareConsumer

        member: Any = ShareConsumer(
            {"bootstrap.servers": self.cluster.bootstrap_servers, "group.id": self.group}
        )
        member.subscribe(self.topics)
        try:
            while not self.is_done:
                for message in member.poll(timeout=0.2) or ():
                    if message.error() is None:
                        self.note("confluent", message.value(), message.delivery_count() or 1)
        finally:
            member.close()


def test_one_group_of_four_clients_accepts_each_record(cluster: Cluster, java: Bridge) -> None:
    queue = SharedQueue(cluster)
    found: list[dict[str, Any]] = []

    def java_tool() -> None:
        (done,) = java(
            "tool",
            [
                {
                    "class": "VerifiableShareConsumer",
                    "arguments": [
                        *("--bootstrap-server", cluster.bootstrap_servers),
                        *("--topic", queue.topics[0]),
                        *("--group-id", queue.group),
                        *("--max-messages", str(OF_JAVA)),
                        *("--acknowledgement-mode", "sync", "--verbose"),
                    ],
                }
            ],
        )
        assert done["status"] == 0, done["output"]
        found.extend(json.loads(line) for line in str(done["output"]).splitlines() if line.startswith('{"'))

    raised: list[BaseException] = []

    def guarded(program: Callable[[], None]) -> Callable[[], None]:
        def run_it() -> None:
            try:
                program()
            except BaseException as error:
                raised.append(error)

        return run_it

    queue.fill()
    first = threading.Thread(target=guarded(java_tool))
    first.start()
    first.join(PATIENCE)
    assert not raised, raised
    for event in found:
        if event["name"] == "record_data":
            queue.note("java", str(event["value"]).encode())
    others = [
        threading.Thread(target=guarded(program), daemon=True)
        for program in (queue.ours, queue.asynchronous, queue.confluent)
    ]
    for thread in others:
        thread.start()
    for thread in others:
        thread.join(PATIENCE)
    assert not raised, raised
    assert {*queue.accepted} == queue.sent
    twice = {value for value, count in queue.accepted.items() if count > 1}
    assert twice <= queue.redelivered
    assert queue.by_client["java"] >= OF_JAVA


class KilledGroup:
    """A group whose members are killed at random and started again, until all records are done."""

    def __init__(
        self, cluster: Cluster, jars: KafkaJars | None, folder: Path, kinds: list[str], records: int
    ) -> None:
        self.cluster = cluster
        self.jars = jars
        self.folder = folder
        self.topics = [cluster.new_topic() for _ in range(2)]
        self.group = f"{self.topics[0]}-killed"
        self.members: list[Member] = []
        self.records = records
        """How many each topic gets."""
        self.sent = 0
        servers = cluster.bootstrap_servers
        with KafkaAdminClient(bootstrap_servers=servers) as admin:
            options = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "10"}
            admin.alter_configs({ConfigResource(ConfigResourceType.GROUP, self.group): options})
        self.producer = KafkaProducer(bootstrap_servers=servers)
        self.living = [self.start(kind) for kind in kinds]

    def send(self, count: int) -> None:
        """Send so many of the remaining records to each topic, in batches of at most 500."""
        while count > 0 and self.sent < self.records:
            size = min(count, 500, self.records - self.sent)
            for topic in self.topics:
                self.producer.send_many(topic, [b"work"] * size)
            self.producer.flush()
            self.sent += size
            count -= size

    def start(self, kind: str) -> Member:
        path = self.folder / f"{len(self.members)}-{kind}"
        member = Member.start(kind, self.jars, self.cluster.bootstrap_servers, self.group, path, self.topics)
        self.members.append(member)
        return member

    def kill_one(self, chosen: random.Random) -> None:
        """Kill a member, and start another one of its kind."""
        victim = chosen.randrange(len(self.living))
        self.living[victim].kill()
        self.living[victim] = self.start(self.living[victim].kind)

    def taken(self) -> int:
        """Return how many records the members have taken, which is cheaper than a `Reading`."""
        return sum(member.taken() for member in self.members)

    def is_done(self) -> bool:
        """Return whether brokers wait for no record any more, and each was taken."""
        if self.sent < self.records or self.taken() < 2 * self.records:
            return False
        request = DescribeShareGroupOffsetsRequest(
            groups=[DescribeShareGroupOffsetsRequestGroup(group_id=self.group, topics=None)]
        )
        for address in self.cluster.bootstrap_servers.split(","):
            with RawClient(address) as wire:
                (group,) = wire.call(request, 1).groups
            if not group.error_code:
                lags = [(topic.topic_name, of.lag) for topic in group.topics for of in topic.partitions]
                return sorted(lags) == sorted((topic, 0) for topic in self.topics)
        return False

    def check(self) -> Reading:
        """Check that each record was accepted once, or is counted as redelivered, and none is lost."""
        found = Reading.of(self.members)
        assert {*found.taken} == {
            (topic, 0, offset) for topic in self.topics for offset in range(self.records)
        }
        twice = [place for place, count in found.accepted.items() if count > 1]
        assert not twice
        silent = [place for place, count in found.first.items() if count > 1]
        assert not silent, "records were delivered again without a higher delivery count"
        return found


def play_kills(group: KilledGroup, kills: int, seed: int) -> Reading:
    """Kill so many members, each in the midst of work, and wait until all records are done.

    A few records at a time are sent until every member has taken one, since some start slowly; then many, and
    a member is killed.
    """
    chosen = random.Random(seed)
    deadline = time.monotonic() + 900

    def check_time() -> None:
        assert time.monotonic() < deadline, [member.errors() for member in group.living]

    try:
        for left in range(kills, 0, -1):
            while group.sent < group.records and not all(member.taken() for member in group.living):
                group.send(TRICKLE)
                time.sleep(0.1)
                check_time()
            group.send((group.records - group.sent) // left)
            time.sleep(chosen.random() * 0.3)
            group.kill_one(chosen)
        group.send(group.records)
        while not group.is_done():
            time.sleep(0.1)
            check_time()
    finally:
        for member in group.living:
            member.kill()
        group.producer.close()
    return group.check()


def test_killed_members_of_two_clients_lose_no_record(tmp_path: Path) -> None:
    config = {
        **QUICK_GROUPS,
        "group.share.min.heartbeat.interval.ms": 100,
        "group.share.heartbeat.interval.ms": 100,
        "group.share.min.session.timeout.ms": 1000,
        "group.share.session.timeout.ms": 4000,
    }
    with KafkaCluster(brokers=2, config=config) as kafka:
        cluster = Cluster("bundled", kafka.bootstrap_servers, replicas=2)
        group = KilledGroup(cluster, None, tmp_path, ["sync", "confluent"], records=1000)
        found = play_kills(group, kills=2, seed=1)
    assert sum(found.accepted.values()) > 0


@pytest.mark.long
def test_killed_members_of_all_clients_lose_none_of_100_000_records(
    cluster: Cluster, jars: KafkaJars, tmp_path: Path
) -> None:
    group = KilledGroup(cluster, jars, tmp_path, [*KINDS, *KINDS], records=50_000)
    found = play_kills(group, kills=24, seed=50)
    redelivered = sum(count > 1 for count in found.taken.values())
    print(
        f"{cluster.kind}: {len(found.taken)} records, {redelivered} taken more than once, "
        f"{sum(found.accepted.values())} confirmed; taken by {dict(found.by_kind)}"
    )
    assert {*found.by_kind} == {*KINDS}
