"""Consume, transform, produce: offsets of a KIP-848 member in a producer's transaction (KIP-447)."""

from __future__ import annotations

import pytest

from pykafka2 import KafkaProducer
from pykafka2.errors import TransactionFailed
from pykafka2.protocol.messages.transaction import TxnOffsetCommitRequest
from pykafka2.testing import Simulation
from pykafka2.types import OffsetAndMetadata, TopicPartition
from tests.consumer.group.kip848.groups import consumer_group, membership
from tests.consumer.group.life import Group, Member

pytestmark = pytest.mark.slow


def copier(simulation: Simulation) -> tuple[Group, Member, KafkaProducer]:
    """A member that commits nothing by itself, and a producer in whose transactions it copies."""
    group = consumer_group(simulation, {"orders": 6, "copies": 1}, enable_auto_commit=False)
    member = group.member("a")
    group.settle()
    group.produce(30)
    producer = simulation.producer(group.cluster, transactional_id="copier")
    producer.init_transactions()
    return group, member, producer


def copy_once(member: Member, producer: KafkaProducer) -> int:
    """One transaction with what one poll brings; how many records that were."""
    polled = member.consumer.poll(500)
    producer.begin_transaction()
    for records in polled.values():
        for record in records:
            producer.send("copies", record.value)
    places = {partition: OffsetAndMetadata(records[-1].offset + 1) for partition, records in polled.items()}
    producer.send_offsets_to_transaction(places, member.consumer.group_metadata())
    producer.commit_transaction()
    return sum(map(len, polled.values()))


def test_offsets_go_with_the_transaction_and_name_the_members_epoch(simulation: Simulation) -> None:
    group, member, producer = copier(simulation)
    copied = 0
    for _ in range(30):
        copied += copy_once(member, producer)
        if copied == 30:
            break
    assert copied == 30
    assert set(group.cluster.group("g").offsets.values()) == {5}
    [request, *_] = group.cluster.history.requests(TxnOffsetCommitRequest)
    assert request.member_id == membership(member).member_id
    assert request.generation_id_or_member_epoch == member.consumer.group_metadata().generation_id > 0
    producer.close()


@pytest.mark.gate
def test_expelled_member_cannot_commit_offsets_in_its_transaction(simulation: Simulation) -> None:
    group, member, producer = copier(simulation)
    metadata = member.consumer.group_metadata()
    member.consumer.close()
    group.members.remove(member)
    group.member("b")
    group.settle()
    producer.begin_transaction()
    place = {TopicPartition("orders", 0): OffsetAndMetadata(3)}
    with pytest.raises(TransactionFailed, match=r"can only be aborted.*UnknownMemberId"):
        producer.send_offsets_to_transaction(place, metadata)
    producer.abort_transaction()
    assert group.cluster.group("g").offsets == {}
    producer.close()
