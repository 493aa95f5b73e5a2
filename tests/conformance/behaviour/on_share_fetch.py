"""Share groups (KIP-932) at a partition's leader: ShareFetch and ShareAcknowledge."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from pykafka2.records.batch import batches
from tests.broker.support.batches import batch

from .on_produce import produce
from .on_share_groups import share_coordinator
from .side import TIMEOUT, Side, scenario

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
Ack = tuple[int, int, Sequence[int]]


class Member:
    """A member of a share group that reads one partition, on a connection of its own."""

    def __init__(self, side: Side, group: str, topic: str, name: str = "m") -> None:
        self.side = side
        self.group = group
        self.topic_id = side.id_of(topic)
        self.leader = side.leader_of(topic)
        self.name = name
        self.epoch = 0

    def _topics(self, acks: Sequence[Ack], options: dict[str, Any]) -> list[dict[str, Any]]:
        named = [
            {"first_offset": first, "last_offset": last, "acknowledge_types": list(types)}
            for first, last, types in acks
        ]
        partition = {"partition_index": options.pop("partition", 0), "acknowledgement_batches": named}
        return [{"topic_id": options.pop("topic_id", self.topic_id), "partitions": [partition]}]

    def fetch_fields(self, *acks: Ack, **options: Any) -> dict[str, Any]:
        defaults = {
            "group_id": self.group,
            "member_id": self.name,
            "share_session_epoch": self.epoch,
            "max_wait_ms": 300,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "topics": self._topics(acks, options) if options.pop("names", True) else [],
        }
        return {**defaults, **options}

    def fetch(self, label: str, *acks: Ack, version: int = 2, **options: Any) -> Any:
        fields = self.fetch_fields(*acks, **options)
        answer = self.side.ask(label, "ShareFetch", version, self.leader, self.name, **fields)
        if not answer.error_code and fields["share_session_epoch"] == self.epoch:
            self.epoch += 1
        return answer

    def start(self, records: int) -> None:
        """Open the session, and wait until the share partition delivers; these records stay acquired."""
        deadline = time.monotonic() + TIMEOUT
        options: dict[str, Any] = {"max_records": records, "max_wait_ms": 500}
        while True:
            fields = self.fetch_fields(**options)
            answer = self.side.quietly("ShareFetch", 2, self.leader, self.name, **fields)
            assert answer.error_code == 0, answer
            self.epoch += 1
            if any(one.acquired_records for topic in answer.responses for one in topic.partitions):
                return
            assert time.monotonic() < deadline, answer
            time.sleep(0.05)

    def acknowledge(self, label: str, *acks: Ack, version: int = 2, **options: Any) -> Any:
        defaults = {
            "group_id": self.group,
            "member_id": self.name,
            "share_session_epoch": self.epoch,
            "topics": self._topics(acks, options),
        }
        fields = {**defaults, **options}
        answer = self.side.ask(label, "ShareAcknowledge", version, self.leader, self.name, **fields)
        if not answer.error_code and fields["share_session_epoch"] == self.epoch:
            self.epoch += 1
        return answer


def begun(side: Side, name: str, *sizes: int) -> str:
    """Return a topic with batches of so many records, which a group of the same name reads from offset 0."""
    topic = side.topic(name)
    at = side.coordinator(name)
    share_coordinator(side, name, side.id_of(topic))
    side.await_topic_in_groups(topic, at)
    entries = [{"partition_index": 0, "start_offset": 0}]
    side.quietly(
        "AlterShareGroupOffsets",
        0,
        at,
        group_id=name,
        topics=[{"topic_name": topic, "partitions": entries}],
    )
    for size in sizes:
        produce(side, f"{size} records", topic, batch([b"%d" % number for number in range(size)]))
    return topic


@scenario
def share_fetch_by_call(side: Side) -> None:
    """Records are acquired, acknowledged, released, and delivered again."""
    topic = begun(side, "share-fetch", 3, 3, 4)
    one, two = Member(side, "share-fetch", topic), Member(side, "share-fetch", topic, "n")
    one.start(1)
    two.fetch("another member", max_records=3)
    one.fetch("the rest in version 1", version=1)
    one.fetch("nothing", max_wait_ms=1)
    one.acknowledge("the first", (0, 2, [ACCEPT]))
    one.acknowledge("again", (0, 2, [ACCEPT]))
    one.acknowledge("of another member", (3, 5, [ACCEPT]))
    one.acknowledge("single types", (6, 9, [ACCEPT, RELEASE, REJECT, GAP]))
    one.acknowledge("released ones", (7, 7, [ACCEPT]))
    two.fetch("released and acknowledged", (3, 4, [ACCEPT]), max_records=1)
    two.acknowledge("beyond the end", (9, 12, [ACCEPT]))
    two.acknowledge("far beyond the end", (40, 41, [ACCEPT]))
    two.acknowledge("a part that is not held", (5, 6, [ACCEPT]))
    two.acknowledge("two batches", (5, 5, [RELEASE]), (7, 7, [RELEASE]))
    one.fetch("one by one", max_records=1, share_acquire_mode=1)
    one.fetch("the next", max_records=1, share_acquire_mode=1)
    one.fetch("an unknown mode", max_records=1, share_acquire_mode=2)
    one.fetch("ends", (5, 5, [ACCEPT]), share_session_epoch=-1, names=True)
    two.fetch("released at the end", max_wait_ms=2000)


@scenario
def share_records_renewed(side: Side) -> None:
    """Renewal of acquisition locks (KIP-1222)."""
    topic = begun(side, "share-renewed", 3)
    one = Member(side, "share-renewed", topic)
    one.start(3)
    zeros = dict.fromkeys(("max_wait_ms", "min_bytes", "max_bytes", "max_records"), 0)
    one.acknowledge("without the mark", (0, 0, [RENEW]))
    one.acknowledge("in version 1", (0, 0, [RENEW]), version=1)
    one.acknowledge("renewed", (0, 2, [RENEW]), is_renew_ack=True)
    one.acknowledge("some renewed", (0, 2, [ACCEPT, RENEW, RENEW]), is_renew_ack=True)
    one.fetch("with limits", (1, 1, [RENEW]), is_renew_ack=True)
    one.fetch("renewed", (1, 1, [RENEW]), is_renew_ack=True, **zeros)
    one.fetch("not held", (0, 0, [RENEW]), is_renew_ack=True, **zeros)
    one.fetch("beyond the end", (7, 7, [RENEW]), is_renew_ack=True, **zeros)


@scenario
def share_sessions_by_call(side: Side) -> None:
    """Epochs of share sessions, and requests that are invalid."""
    topic = begun(side, "share-sessions", 2)
    one = Member(side, "share-sessions", topic)
    one.fetch("no session", share_session_epoch=4)
    one.acknowledge("no session", share_session_epoch=4)
    one.acknowledge("opened by an acknowledgement", share_session_epoch=0)
    one.fetch("ends without a session", share_session_epoch=-1)
    one.acknowledge("ends without a session", share_session_epoch=-1)
    one.fetch("opened with acknowledgements", (0, 0, [ACCEPT]))
    one.fetch("no group", group_id=None)
    one.fetch("no member", member_id=None)
    one.fetch("an empty member", member_id="")
    one.fetch("a long member", member_id="m" * 37)
    one.acknowledge("no group", group_id=None)
    one.acknowledge("no member", member_id=None)
    one.start(2)
    one.fetch("another epoch", share_session_epoch=77)
    one.acknowledge("another epoch", share_session_epoch=77)
    one.fetch("an unknown partition", partition=9, max_wait_ms=1)
    one.acknowledge("an unknown partition", (0, 0, [ACCEPT]), partition=9)
    for label, acks in (
        ("backwards", [(1, 0, [ACCEPT])]),
        ("no types", [(0, 1, [])]),
        ("too many types", [(0, 1, [ACCEPT] * 3)]),
        ("an unknown type", [(0, 1, [7])]),
        ("a negative type", [(0, 1, [-1])]),
        ("not in order", [(1, 1, [ACCEPT]), (0, 0, [ACCEPT])]),
        ("no batches", []),
    ):
        one.acknowledge(label, *acks)
    one.acknowledge("ends", (0, 0, [ACCEPT]), share_session_epoch=-1)
    one.acknowledge("has ended", (1, 1, [ACCEPT]))
    again = Member(side, "share-sessions", topic, "n")
    answer = again.side.quietly("ShareFetch", 2, again.leader, "n", **again.fetch_fields())
    side.note(
        "the batches of the next member",
        [one.base_offset for one in batches(memoryview(answer.responses[0].partitions[0].records or b""))],
    )
