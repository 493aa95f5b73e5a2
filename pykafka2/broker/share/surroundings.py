"""The objects around a share partition: its key, the client of the share coordinator, dead letters.

Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import attrs

from pykafka2.broker.base.image import Key
from pykafka2.broker.base.timing_wheel import TimingWheel
from pykafka2.broker.coordinators.inter_broker import ShareStateClient
from pykafka2.broker.share.options import ShareGroupOptions, ShareOptions


@attrs.define(frozen=True)
class SharePartitionKey:
    """A partition in a share group."""

    group_id: str
    topic_id: bytes
    topic: str
    partition: int

    @property
    def place(self) -> Key:
        """The partition."""
        return self.topic, self.partition


class Places(Protocol):
    """Finds offsets in the partition's log."""

    def start_offset(self, key: SharePartitionKey, leader_epoch: int, options: ShareGroupOptions) -> int:
        """Return where a group without a stored offset starts. Raise a `BrokerError` if that is unknown."""
        ...


@attrs.define(frozen=True)
class DeadLetters:
    """Consecutive records that go to the group's dead-letter topic."""

    key: SharePartitionKey
    first_offset: int
    last_offset: int
    delivery_count: int
    cause: str


SendDeadLetters = Callable[[DeadLetters, Callable[[float], object], float], object]
"""Callback: (records, on_done, now); `on_done` is called once, even if they could not be sent."""


@attrs.define(frozen=True)
class Surroundings:
    """Objects for all share partitions of one broker. `notify` is called when records can be acquired."""

    wheel: TimingWheel
    options: ShareOptions
    persister: ShareStateClient
    places: Places
    send_dead_letters: SendDeadLetters
    notify: Callable[[SharePartitionKey, float], object]
