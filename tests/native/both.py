"""Runs the code of one process with the extension pykafka2-c, or without it.

The suite itself runs in Python alone (tests/conftest.py), so these tests put the extension into the modules
that use it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from pykafka2.native import BATCH, DELIVERY, INTERFACE, QUEUE, RECORD, ROUTE, Compiled
from pykafka2.producer.accumulator import batch_records, open_batch
from pykafka2.producer.accumulator.open_batch import OpenBatch
from pykafka2.producer.accumulator.partition_queue import PartitionQueue
from pykafka2.producer.delivery.delivery import Delivery
from pykafka2.producer.partitioning.topic_route import Route
from pykafka2.records import batch_reader, decoder
from pykafka2.types import ConsumerRecord

REQUIRED = "PYKAFKA2_REQUIRE_NATIVE"


def extension() -> Compiled:
    """Return the extension. Without it skip the test, or fail if the environment requires it."""
    try:
        import pykafka2_c
    except ImportError as error:
        if os.environ.get(REQUIRED) == "1":
            raise
        reason = f"pykafka2-c is not installed ({error}); run: pip install ./native"
        pytest.skip(reason, allow_module_level=True)
    assert pykafka2_c.INTERFACE == INTERFACE, "pip install ./native"
    for kind, cls in (
        (RECORD, ConsumerRecord),
        (DELIVERY, Delivery),
        (BATCH, OpenBatch),
        (ROUTE, Route),
        (QUEUE, PartitionQueue),
    ):
        pykafka2_c.bind(kind, cls)
    return cast(Compiled, pykafka2_c)


@contextmanager
def running(compiled: Compiled | None) -> Iterator[None]:
    """Decode and encode with the extension, or with None in Python."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_reader, "native", compiled)
        patch.setattr(decoder, "native", compiled)
        patch.setattr(batch_records, "compiled", compiled)
        if compiled is not None:
            patch.setattr(open_batch, "append_unlocked", compiled.append_unlocked)
            patch.setattr(open_batch, "swap_room", compiled.swap_room)
        yield


def with_slots(record: ConsumerRecord) -> tuple[Any, ...]:
    """Return all fields of a record, and whether it holds headers."""
    return (
        *record._as_tuple(),
        type(record),
        getattr(record, "headers_slot", None),
        record.serialized_key_size,
        record.serialized_value_size,
    )
