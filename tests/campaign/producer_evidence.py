"""Evidence about producers: the contents of the logs, and the produce requests of the brokers.

Gathered once, when all is over; the promises (producer_promises.py) all look at the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from uuid import UUID

import attrs

from pykafka2.errors import MessageTooLarge
from pykafka2.records.batch import RecordBatch, batches
from pykafka2.records.decoder import decode_tuples
from pykafka2.testing.simulation.history import Sent

if TYPE_CHECKING:
    from pykafka2.testing.simulation.world import World

Place = tuple[str, int]
Numbered = tuple[int, int, int]
"""Producer id, its epoch, sequence of the first record."""


@attrs.define
class Logged:
    """A record in a log; `number` is that of its batch."""

    offset: int
    value: bytes
    number: Numbered


@attrs.define
class Attempt:
    """A batch in a produce request that reached a broker."""

    client: str
    at: float
    place: Place
    number: Numbered
    data: bytes
    values: list[bytes]
    is_late: bool
    """The copy of an earlier one, which comes from a connection that is gone."""
    was_too_large: bool
    """It was refused as such, so the producer may split it: other bytes under its number (KIP-126)."""


@attrs.define
class Evidence:
    """The contents of the logs, and the requests that brokers received."""

    logs: dict[Place, list[Logged]]
    attempts: list[Attempt]
    sent: dict[bytes, Sent]

    @classmethod
    def gather(cls, world: World) -> Evidence:
        logs = {
            place: [
                Logged(offset, value, _number(batch))
                for batch in world.cluster.log(*place).batches()
                for offset, value in records_of(batch)
            ]
            for place in world.partitions()
        }
        return cls(logs, list(_attempts(world)), world.history.by_value())

    def offsets(self, place: Place) -> dict[bytes, list[int]]:
        """Positions of each value in a partition's log."""
        found: dict[bytes, list[int]] = {}
        for logged in self.logs[place]:
            found.setdefault(logged.value, []).append(logged.offset)
        return found


def records_of(batch: RecordBatch) -> Iterator[tuple[int, bytes]]:
    """Offsets and values."""
    return ((offset, value or b"") for offset, _, _, value, _ in decode_tuples(batch))


def _number(batch: RecordBatch) -> Numbered:
    return batch.producer_id, batch.producer_epoch, batch.base_sequence


def _attempts(world: World) -> Iterator[Attempt]:
    names = world.cluster.controller.image.topic_names
    values_of: dict[bytes, list[bytes]] = {}
    for entry in world.cluster.history.entries("Produce"):
        too_large = _too_large(entry.response)
        for topic in entry.request.topic_data:
            for partition in topic.partition_data:
                place = (topic.name or names.get(topic.topic_id, ""), partition.index)
                data = bytes(partition.records)
                for batch in batches(data):
                    values = values_of.get(data)
                    if values is None:
                        values = values_of[data] = [value for _, value in records_of(batch)]
                    number, client = _number(batch), entry.client_id or ""
                    is_late = entry.peer.endswith("(dead)")
                    was_too_large = (topic.name, topic.topic_id, partition.index) in too_large
                    yield Attempt(
                        client, entry.received_at, place, number, data, values, is_late, was_too_large
                    )


def _too_large(response: Any) -> set[tuple[str, UUID, int]]:
    """The partitions whose batches a broker refused for their size, by the topic's name and id."""
    topics = [] if response is None else response.responses
    return {
        (topic.name, topic.topic_id, one.index)
        for topic in topics
        for one in topic.partition_responses
        if one.error_code == MessageTooLarge.code
    }
