"""A member of a share group, as a client sends its ShareFetch and ShareAcknowledge requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pykafka2.protocol.messages.share_fetch import (
    AcknowledgePartition,
    AcknowledgeTopic,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeRequestAcknowledgementBatch,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchRequestAcknowledgementBatch,
    ShareFetchResponse,
    ShareFetchResponsePartitionData,
)
from pykafka2.records.batch import batches
from pykafka2.records.decoder import decode_tuples
from tests.broker.support.raw_client import RawClient

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)

Acks = Mapping[int, Sequence[tuple[int, int, Sequence[int]]]]
"""By partition: first offset, last offset, types."""


class ShareMember:
    """One member on one connection, which reads one topic."""

    def __init__(
        self, wire: RawClient, topic_id: bytes, *, member_id: str = "m", group_id: str = "g", version: int = 2
    ) -> None:
        self.wire = wire
        self.topic_id = topic_id
        self.member_id = member_id
        self.group_id = group_id
        self.version = version
        self.epoch = 0

    def request(
        self,
        partitions: Sequence[int] = (0,),
        *,
        acks: Acks | None = None,
        forgotten: Sequence[int] = (),
        topic_id: bytes | None = None,
        **fields: Any,
    ) -> ShareFetchRequest:
        """Return a ShareFetch."""
        acks = acks or {}
        defaults: dict[str, Any] = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "share_session_epoch": self.epoch,
            "max_wait_ms": 10_000,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
        }
        return ShareFetchRequest(
            **{**defaults, **fields},
            topics=[
                FetchTopic(
                    topic_id=topic_id or self.topic_id,
                    partitions=[
                        FetchPartition(
                            partition_index=partition,
                            acknowledgement_batches=[
                                ShareFetchRequestAcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=list(types)
                                )
                                for first, last, types in acks.get(partition, ())
                            ],
                        )
                        for partition in sorted({*partitions, *acks})
                    ],
                )
            ]
            if partitions or acks
            else [],
            forgotten_topics_data=[ForgottenTopic(topic_id=self.topic_id, partitions=list(forgotten))]
            if forgotten
            else [],
        )

    def call(self, partitions: Sequence[int] = (0,), **fields: Any) -> ShareFetchResponse:
        """Send a ShareFetch and return its response; a success advances the epoch."""
        response = self.wire.call(self.request(partitions, **fields), self.version)
        if not response.error_code and fields.get("share_session_epoch", self.epoch) == self.epoch:
            self.epoch += 1
        return response

    def fetch(self, partition: int = 0, **fields: Any) -> ShareFetchResponsePartitionData:
        """Fetch one partition."""
        response = self.call((partition,), **fields)
        assert response.error_code == 0, response.error_code
        found = [
            data
            for topic in response.responses
            for data in topic.partitions
            if data.partition_index == partition
        ]
        return found[0] if found else EMPTY

    def acknowledge(
        self, acks: Acks, *, topic_id: bytes | None = None, **fields: Any
    ) -> ShareAcknowledgeResponse:
        """Send a ShareAcknowledge and return its response; a success advances the epoch."""
        defaults: dict[str, Any] = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "share_session_epoch": self.epoch,
        }
        request = ShareAcknowledgeRequest(
            **{**defaults, **fields},
            topics=[
                AcknowledgeTopic(
                    topic_id=topic_id or self.topic_id,
                    partitions=[
                        AcknowledgePartition(
                            partition_index=partition,
                            acknowledgement_batches=[
                                ShareAcknowledgeRequestAcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=list(types)
                                )
                                for first, last, types in entries
                            ],
                        )
                        for partition, entries in acks.items()
                    ],
                )
            ],
        )
        response = self.wire.call(request, self.version)
        if not response.error_code and fields.get("share_session_epoch", self.epoch) == self.epoch:
            self.epoch += 1
        return response

    def settle(self, first: int, last: int, *types: int, partition: int = 0, **fields: Any) -> int:
        """Acknowledge offsets of one partition. Return the error code."""
        response = self.acknowledge({partition: [(first, last, types)]}, **fields)
        assert response.error_code == 0, response.error_code
        return response.responses[0].partitions[0].error_code


EMPTY = ShareFetchResponsePartitionData(
    partition_index=0,
    acknowledge_error_code=0,
    current_leader=None,  # type: ignore[arg-type]
    records=b"",
    acquired_records=[],
)


def acquired(data: ShareFetchResponsePartitionData) -> list[tuple[int, int, int]]:
    """Return first offset, last offset and delivery count of each range."""
    return [(one.first_offset, one.last_offset, one.delivery_count) for one in data.acquired_records]


def values(data: ShareFetchResponsePartitionData) -> list[bytes | None]:
    """Return the values of the acquired records."""
    offsets = {
        offset for one in data.acquired_records for offset in range(one.first_offset, one.last_offset + 1)
    }
    return [
        value
        for batch in batches(memoryview(data.records or b""))
        if not batch.is_control
        for offset, _, _, value, _ in decode_tuples(batch)
        if offset in offsets
    ]
