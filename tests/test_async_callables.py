"""An async function in place of a plain callback: it is never awaited, so it is refused, and not forgotten.

Before, `on_bad_record` lost each record that it was to take, and values were coroutines.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from pykafka2 import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer
from pykafka2.errors import ConfigurationError, IllegalArgument

WORDS = "it is async, and this client does not await it; pass a plain function"


async def later(*arguments: Any) -> None:
    """Never awaited."""


class Later:
    async def __call__(self, arguments: Any) -> None:
        """Never awaited."""


class LateDeserializer:
    async def deserialize(self, topic: str, headers: Any, data: bytes) -> None:
        """Never awaited."""


class LateSerializer:
    async def serialize(self, topic: str, headers: Any, data: Any) -> None:
        """Never awaited."""


class LateListener(ConsumerRebalanceListener):
    async def on_partitions_revoked(self, revoked: Any) -> None:  # type: ignore[override]
        """Never awaited."""


class LatePartitioner:
    async def partition(self, *arguments: Any) -> None:
        """Never awaited."""


class LateInterceptor:
    async def on_send(self, record: Any) -> None:
        """Never awaited."""

    async def on_consume(self, records: Any) -> None:
        """Never awaited."""


OPTIONS: dict[str, Callable[[], object]] = {
    "on_bad_record": lambda: KafkaConsumer(on_bad_record=later),
    "on_bad_record, an object": lambda: KafkaConsumer(on_bad_record=Later()),
    "on_bad_record, in part": lambda: KafkaConsumer(on_bad_record=functools.partial(later, 1)),
    "value_deserializer": lambda: KafkaConsumer(value_deserializer=later),
    "key_deserializer": lambda: KafkaConsumer(key_deserializer=LateDeserializer()),
    "default_offset_commit_callback": lambda: KafkaConsumer(default_offset_commit_callback=later),
    "value_serializer": lambda: KafkaProducer(value_serializer=later),
    "key_serializer": lambda: KafkaProducer(key_serializer=LateSerializer()),
    "partitioner": lambda: KafkaProducer(partitioner=later),
    "partitioner, an object": lambda: KafkaProducer(partitioner=LatePartitioner()),
    "interceptors": lambda: KafkaProducer(interceptors=[LateInterceptor()]),
    "interceptors, of a consumer": lambda: KafkaConsumer(interceptors=[LateInterceptor()]),
}


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_that_is_async_is_refused(option: str) -> None:
    with pytest.raises(ConfigurationError, match=WORDS) as caught:
        OPTIONS[option]()
    assert option.split(",")[0] in str(caught.value)


CALLS: dict[str, Callable[[KafkaConsumer], object]] = {
    "on_assigned": lambda consumer: consumer.subscribe(["orders"], on_assigned=later),
    "on_partitions_revoked": lambda consumer: consumer.subscribe(["orders"], listener=LateListener()),
    "callback": lambda consumer: consumer.commit_async(callback=later),
}


@pytest.mark.parametrize("argument", CALLS)
def test_an_argument_that_is_async_is_refused(argument: str) -> None:
    consumer = KafkaConsumer(group_id="billing")
    with consumer, pytest.raises((IllegalArgument, TypeError), match=WORDS) as caught:
        CALLS[argument](consumer)
    assert argument in str(caught.value)
