"""A cluster of two brokers of which one lies (or both do), its clients, and the promises that hold whatever
the lie is.

`orders` has a partition on each broker: 0 on broker 0, which lies, 1 on broker 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from pykafka2.errors import IllegalState, KafkaError
from pykafka2.testing import Simulation, Topic
from tests.hostile_brokers.liar import Liar
from tests.hostile_brokers.lies import Lie

BAD = TopicPartition("orders", 0)
GOOD = TopicPartition("orders", 1)
LIES_LAST = 10.0
"""Virtual seconds: longer than any timeout of these clients."""
MOST_REQUESTS_PER_SECOND = 40
"""Most requests of all clients to the liars, all APIs together, including the start of a client with its
connections.
"""

PATIENCE = {"request_timeout_ms": 2_000, "retry_backoff_max_ms": 500, "reconnect_backoff_max_ms": 500}


class World:
    def __init__(self, simulation: Simulation, *, everywhere: bool = False, **options: Any) -> None:
        self.simulation = simulation
        self.liar = Liar(simulation, "broker-0", *(["broker-1"] if everywhere else []))
        topics = {"orders": Topic(assignment=[[0], [1]])}
        self.cluster = simulation.cluster(brokers=2, topics=topics, **options)
        self.read: dict[TopicPartition, list[Any]] = {BAD: [], GOOD: []}

    # ------------------------------------------------------------------ clients

    def producer(self, **options: Any) -> KafkaProducer:
        quick = {"delivery_timeout_ms": 6_000, "max_block_ms": 6_000, "linger_ms": 0, **PATIENCE}
        return self.simulation.producer(self.cluster, **{**quick, **options})

    def consumer(self, *topics: str, **options: Any) -> KafkaConsumer:
        quick = {"default_api_timeout_ms": 6_000, "auto_offset_reset": "earliest", **PATIENCE}
        return self.simulation.consumer(self.cluster, *topics, **{**quick, **options})

    def admin(self, **options: Any) -> KafkaAdminClient:
        quick = {"default_api_timeout_ms": 6_000, **PATIENCE}
        runtime = self.simulation.runtime.at("admin")
        servers = self.cluster.bootstrap_servers
        return KafkaAdminClient(bootstrap_servers=servers, runtime=runtime, **{**quick, **options})

    # ------------------------------------------------------------------ what holds

    @contextmanager
    def lied_to(self, lie: Lie) -> Iterator[None]:
        """The liar lies meanwhile; it must have got a request, and not too many."""
        began, lies_before = self.simulation.now, self.liar.lie_count
        self.liar.lie(lie.api, lie.tell)
        yield
        self.liar.be_honest()
        assert self.liar.lie_count > lies_before, "there was no request, so there was no lie"
        assert self.liar.busiest_second(began) <= MOST_REQUESTS_PER_SECOND

    def until(self, predicate: Callable[[], bool], seconds: float) -> bool:
        deadline = self.simulation.now + seconds
        while not predicate():
            if self.simulation.now >= deadline:
                return False
            self.simulation.sleep(0.05)
        return True


def ending(call: Callable[[], Any]) -> KafkaError | None:
    """How a call ends: nothing but a `KafkaError` may come out of it."""
    raised: KafkaError | None = None
    try:
        call()
    except KafkaError as error:
        raised = error
    assert not isinstance(raised, IllegalState), f"not for the user: {raised!r}"
    return raised


def poll_for(
    world: World, consumer: KafkaConsumer, seconds: float, enough: Callable[[], bool] = lambda: False
) -> list[KafkaError]:
    """Poll for so long, or until it is enough; values are kept in `world.read`, errors come back."""
    errors: list[KafkaError] = []
    deadline = world.simulation.now + seconds
    while world.simulation.now < deadline and not enough():
        try:
            for partition, found in consumer.poll(200).items():
                world.read[partition] += [one.value for one in found]
        except KafkaError as error:
            errors.append(error)
            world.simulation.sleep(0.1)
    assert [error for error in errors if isinstance(error, IllegalState)] == []
    return errors


def check(lie: Lie, outcomes: list[KafkaError | None]) -> None:
    """Errors of calls during the lie must be those of the case."""
    errors = [error for error in outcomes if error is not None]
    if lie.raises is None:
        assert errors == [], f"{errors!r}"
        return
    assert errors, "no call said that anything was wrong"
    for error in errors:
        assert isinstance(error, lie.raises), f"{error!r}"
        assert re.search(lie.words, str(error)), f"{error!r}"
        assert len(str(error)) < 2_000, "a peer may not fill logs"
