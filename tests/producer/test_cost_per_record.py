"""Cost of a record, counted in Python calls: unlike times, those do not depend on the machine."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat
from types import FrameType
from typing import Any

import pytest

from pykafka2 import KafkaProducer
from pykafka2.testing import KafkaCluster

pytestmark = pytest.mark.slow

VALUE = b"x" * 100
ON_THE_CALLERS_THREAD = "the caller's"
ON_THE_IO_THREAD = "the IO thread's"


class CallCounter:
    """Calls of Python functions of this thread and of the producer's IO thread, while it is on."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._is_on = False
        self._threads: dict[int, str | None] = {threading.get_ident(): ON_THE_CALLERS_THREAD}
        self.calls: Counter[str] = Counter()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or not self._is_on:
            return
        whose = self._threads.get(threading.get_ident(), "")
        if whose == "":
            is_ours = threading.current_thread().name == self._client_id
            whose = self._threads[threading.get_ident()] = ON_THE_IO_THREAD if is_ours else None
        if whose is not None:
            self.calls[whose] += 1

    @contextmanager
    def counting(self) -> Iterator[None]:
        self.calls.clear()
        self._is_on = True
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)
            self._is_on = False


@contextmanager
def counted(**options: Any) -> Iterator[tuple[KafkaProducer, CallCounter]]:
    """A producer that has sent something to the topic `orders`, and the counter of its calls."""
    counter = CallCounter("counted")
    with KafkaCluster(brokers=1, topics={"orders": 1}) as cluster:
        threading.setprofile(counter)
        try:
            servers = cluster.bootstrap_servers
            producer = KafkaProducer(bootstrap_servers=servers, client_id="counted", **options)
        finally:
            threading.setprofile(None)  # type: ignore[arg-type]
        with producer:
            for _ in range(20):
                producer.send("orders", VALUE)
                producer.flush(10)
            yield producer, counter


def ignore(metadata: object, error: object) -> None:
    pass


@pytest.mark.pure
def test_a_plain_record_takes_one_call_on_the_callers_thread() -> None:
    records = 2000
    # As large a batch as there are records, so that none of them is the first one of another.
    with counted(linger_ms=5000, batch_size=1 << 20) as (producer, counter):
        # The first record of a millisecond takes more calls.
        producer._wall_ns = producer._core.appender._wall_ns = repeat(time.time_ns()).__next__
        with counter.counting():
            for _ in range(records):
                producer.send("orders", VALUE, on_delivery=ignore)
        sending = counter.calls[ON_THE_CALLERS_THREAD] / records
        with counter.counting():
            producer.flush(10)
        ending = counter.calls[ON_THE_IO_THREAD] / records
    assert 1 <= sending <= 1.35  # send; more for one record in 64
    assert 1 <= ending <= 1.3  # the callback


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_size": 0},
        {"batch_size": 256 << 10},
        {"batch_size": 1 << 20},
        {"batch_size": 4 << 20},
        {"batch_size": 1 << 20, "compression_type": "lz4"},
        {"batch_size": 1 << 20, "max_request_size": 64 << 10},
        {"bulk_batch_size": 10_000},
    ],
    ids=str,
)
@pytest.mark.parametrize("records", [4_000, 20_000], ids=["0.4 MB", "2 MB"])
def test_send_many_takes_its_columnar_path_with_each_option(options: dict[str, Any], records: int) -> None:
    values = [VALUE] * records
    with counted(**options) as (producer, counter):
        with counter.counting():
            producer.send_many("orders", values)
        calls = counter.calls[ON_THE_CALLERS_THREAD] / records
    assert calls < 2  # record by record it is above 4


def test_a_record_alone_takes_no_more_calls_than_it_used_to() -> None:
    records = 50
    with counted(linger_ms=0) as (producer, counter):
        with counter.counting():
            for _ in range(records):
                producer.send("orders", VALUE).result(10)
        sending = counter.calls[ON_THE_CALLERS_THREAD] / records
        rest = counter.calls[ON_THE_IO_THREAD] / records
    assert sending <= 51
    assert rest <= 118


def test_the_garbage_collector_sees_nothing_of_a_record_that_waits() -> None:
    records = 2000
    with counted(linger_ms=5000, batch_size=1 << 20) as (producer, _):
        before = len(gc.get_objects())
        for _ in range(records):
            producer.send("orders", VALUE, on_delivery=ignore)
        more = len(gc.get_objects()) - before
    assert more < records / 10
