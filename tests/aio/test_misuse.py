"""Mistakes of applications that are new to the asyncio clients: each error names its remedy."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from pykafka2.aio import KafkaConsumer, KafkaProducer
from pykafka2.errors import ConfigurationError
from tests.aio.running import run

WRONG_OPTIONS: dict[str, Callable[[], object]] = {
    "partition_assignment_strategy": lambda: KafkaConsumer(
        group_id="billing",
        partition_assignment_strategy=[object],  # type: ignore[list-item]
    ),
    "there is no assignor 'rnge'": lambda: KafkaConsumer(
        group_id="billing",
        partition_assignment_strategy="rnge",  # type: ignore[typeddict-item]
    ),
    "value_deserializer is str": lambda: KafkaConsumer(value_deserializer=str),
    "partitioner=5": lambda: KafkaProducer(partitioner=5),  # type: ignore[typeddict-item]
}


@pytest.mark.parametrize("words", WRONG_OPTIONS)
def test_wrong_option_on_the_event_loop_raises_as_elsewhere_and_leaves_no_thread(words: str) -> None:
    async def program() -> None:
        with pytest.raises(ConfigurationError, match=words):
            WRONG_OPTIONS[words]()

    before = set(threading.enumerate())
    run(program())
    for thread in set(threading.enumerate()) - before:
        thread.join(10.0)
        assert not thread.is_alive()
