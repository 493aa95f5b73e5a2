"""One partition of a fetch, and its result."""

from __future__ import annotations

import attrs

from pykafka2.broker.base.image import Key
from pykafka2.broker.log.leader_epochs import EpochEnd
from pykafka2.broker.log.transaction_index import AbortedTransaction
from pykafka2.errors import BrokerError
from pykafka2.protocol.file_part import FilePart
from pykafka2.protocol.gathered_part import GatheredPart
from pykafka2.records.batch import Buffer

NO_TOPIC_ID = bytes(16)


@attrs.define
class FetchItem:
    """One partition of a fetch. `topic` is the hexadecimal id if the name is unknown.

    Treated as immutable; not frozen, because that would double the cost of creating one.
    """

    topic: str
    topic_id: bytes
    partition: int
    offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    error: BrokerError | None = None

    @property
    def key(self) -> Key:
        return self.topic, self.partition


@attrs.define
class FetchResult:
    """The result of one partition. `has_more`: limits held back further records."""

    item: FetchItem
    error: BrokerError | None = None
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: Buffer | FilePart | GatheredPart = b""
    diverging: EpochEnd | None = None
    preferred_read_replica: int = -1
    has_more: bool = False
    aborted: list[AbortedTransaction] | None = None
    """For read_committed readers: aborted transactions with data in the records."""
