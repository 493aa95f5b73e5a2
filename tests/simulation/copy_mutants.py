"""Planted bugs of copying in transactions: each has a record copied twice, or not at all.

As those of mutants.py: a mutant gets the world before its clients are made, and patches them (undone by
pytest's monkeypatch).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka2.consumer.consumer import KafkaConsumer
from pykafka2.producer.producer import KafkaProducer
from pykafka2.testing.simulation.world import World
from pykafka2.types import ConsumerGroupMetadata

Mutant = Callable[[World, pytest.MonkeyPatch], None]


def offsets_are_committed_beside_the_transaction(world: World, patch: pytest.MonkeyPatch) -> None:
    """The consumer commits its positions before the outcome of the copies is known."""
    group = KafkaConsumer.group_metadata

    def commit_at_once(self: KafkaConsumer) -> ConsumerGroupMetadata:
        self.commit_async()
        return group(self)

    patch.setattr(KafkaConsumer, "group_metadata", commit_at_once)


def transactions_know_nothing_of_the_member(world: World, patch: pytest.MonkeyPatch) -> None:
    """Offsets are sent for the group alone, so a former member commits, too (before KIP-447)."""
    send = KafkaProducer.send_offsets_to_transaction

    def send_for_group(self: KafkaProducer, offsets: Any, group: Any, timeout: float | None = None) -> None:
        send(self, offsets, group.group_id, timeout)

    patch.setattr(KafkaProducer, "send_offsets_to_transaction", send_for_group)


def nothing_is_read_again_after_an_abort(world: World, patch: pytest.MonkeyPatch) -> None:
    """The application goes on behind what it aborted (KAFKA-17582)."""
    patch.setattr(KafkaConsumer, "seek", lambda self, partition, offset: None)
