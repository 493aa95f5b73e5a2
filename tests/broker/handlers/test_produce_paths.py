"""The short path of a request with one usual batch responds and appends like the general path."""

from __future__ import annotations

import re
from random import Random

import pytest

from pykafka2.broker.handlers import produce
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.broker.support.batches import NOW_MS, batch
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster

HOUR_MS = 3_600_000
LOG_APPEND_TIME, CONTROL, GZIP = 0x08, 0x20, 1


def records_of(random: Random, sequence: int) -> bytes | None:
    """A batch of any kind, mostly valid. `sequence` is the next one of the only producer."""
    values = [random.randbytes(random.choice([0, 5, 300])) for _ in range(random.choice([1, 1, 2, 9]))]
    options: dict[str, object] = {}
    if random.random() < 0.4:
        options = {
            "producer_id": 7,
            "producer_epoch": random.choice([0, 0, 0, 1]),
            "base_sequence": sequence + random.choice([0, 0, 0, 3, -1]),
        }
    unusual = random.choice(
        [
            {},
            {},
            {},
            {"corrupt": True},
            {"magic": 1},
            {"attributes": LOG_APPEND_TIME},
            {"attributes": CONTROL},
            {"codec": GZIP},
            {"count": 5},
            {"timestamp": NOW_MS + 48 * HOUR_MS},
            {"timestamp": -1},
            {"deltas": [-3] * len(values)},
        ]
    )
    data = batch(values, **options, **unusual)  # type: ignore[arg-type]
    return random.choice([data] * 8 + [data[:-3], data + b"xx", data + data, data[:20], None])


def responses(wire: RawClient, random: Random, partition: int) -> list[ProduceResponse]:
    """The responses to requests of any kind to a partition, whose number is replaced in them."""
    topic_id = wire.call(MetadataRequest(topics=None), 12).topics[0].topic_id
    found = []
    for number in range(25):
        data = PartitionProduceData(index=partition, records=records_of(random, number))
        version = random.choice([3, 8, 9, 12, 13])
        name, unknown_id = random.choice(["t", "t", "t", "other"]), bytes(15) + b"\1"
        topic = TopicProduceData(
            name=name if version < 13 else "",
            topic_id=bytes(16) if version < 13 else topic_id if name == "t" else unknown_id,
            partition_data=[data],
        )
        request = ProduceRequest(acks=random.choice([1, 1, -1, -1, 5]), timeout_ms=100, topic_data=[topic])
        response = wire.call(request, version)
        for answer in response.responses[0].partition_responses:
            assert answer.index == partition
            answer.index = -1
            if answer.error_message is not None:
                answer.error_message = re.sub(r"\b(t|other)-\d", r"\1", answer.error_message)
        found.append(response)
    return found


@pytest.mark.kafka(brokers=1, topics={"t": 2})
@pytest.mark.parametrize("seed", range(12))
def test_usual_produce_responds_and_appends_like_the_general_path(
    live: LiveCluster, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    by_short_path = responses(live.leader(), Random(seed), 0)
    monkeypatch.setattr(produce, "_has_one_plain_batch", lambda _: False)
    assert responses(live.leader("t", 1), Random(seed), 1) == by_short_path
    stored = [[bytes(one.buffer) for one in live.cluster.log("t", number).batches()] for number in range(2)]
    assert stored[0] == stored[1] != []
