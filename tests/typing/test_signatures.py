"""The public signatures: the asyncio clients against the blocking ones, and what every name says of itself.

Where the two deliberately differ stands in the tables here, each with its reason.
"""

from __future__ import annotations

import functools
import inspect
from types import ModuleType
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer, aio, testing
from pykafka2.aio import admin as aio_admin
from pykafka2.aio import consumer as aio_consumer
from pykafka2.aio import producer as aio_producer
from pykafka2.broker.broker import Broker
from pykafka2.broker.faults.throttle import ThrottleRule
from pykafka2.broker.server.request_metrics import ApiMetrics, Histogram, RequestMetrics
from pykafka2.consumer.undelivered import Undelivered
from pykafka2.testing.remote.cluster import BrokerView, ProcessCluster
from pykafka2.testing.remote.http_client import AdminClient
from pykafka2.testing.remote.http_port import AdminPort
from pykafka2.testing.simulation.actors import Actor
from pykafka2.testing.simulation.sync import SimEvent, SimQueue
from pykafka2.testing.views import groups as group_views
from pykafka2.testing.views import partitions as views

PAIRS = [
    (KafkaProducer, aio.KafkaProducer),
    (KafkaConsumer, aio.KafkaConsumer),
    (KafkaAdminClient, aio.KafkaAdminClient),
]
IDS = ["producer", "consumer", "admin"]

# What a blocking client has and its sibling on the loop has not.
NOT_ON_THE_LOOP: dict[tuple[type, str], str] = {
    (KafkaConsumer, "wakeup"): "cancelling the task that waits does it, and only that task sees it",
    (KafkaConsumer, "commit_sync"): "`await consumer.commit()` is the same; one name for one thing",
    (KafkaConsumer, "commit_async"): "a task of `consumer.commit()`; its outcome takes the callback's place",
}

# What does not wait for the cluster, so that the asyncio client has it as a plain method.
DOES_NOT_WAIT: dict[type, set[str]] = {
    KafkaProducer: {"explain", "health", "metrics", "transaction"},
    KafkaConsumer: {
        "assign",
        "assignment",
        "bootstrap_connected",
        "enforce_rebalance",
        "explain",
        "group_metadata",
        "health",
        "highwater",
        "metrics",
        "pause",
        "paused",
        "resume",
        "seek",
        "seek_to_beginning",
        "seek_to_end",
        "subscribe",
        "subscription",
        "unsubscribe",
    },
    KafkaAdminClient: set(),
}

# What returns another type on the loop.
RETURNS: dict[tuple[type, str], tuple[str, str]] = {
    (KafkaProducer, "send"): ("Delivery", "Awaitable[RecordMetadata]"),
    (KafkaProducer, "send_many"): ("BulkDelivery", "Awaitable[Sequence[RecordMetadata]]"),
    (KafkaProducer, "transaction"): ("AbstractContextManager[None]", "AbstractAsyncContextManager[None]"),
}

# The special methods, and what asyncio calls in their place.
SPECIAL = {
    "__enter__": "__aenter__",
    "__exit__": "__aexit__",
    "__iter__": "__aiter__",
    "__next__": "__anext__",
}

TESTING_CLASSES: list[type] = [
    *(getattr(testing, name) for name in testing.__all__ if name != "QUICK"),
    Actor,
    AdminClient,
    AdminPort,
    ApiMetrics,
    Broker,
    BrokerView,
    Histogram,
    ProcessCluster,
    RequestMetrics,
    SimEvent,
    SimQueue,
    ThrottleRule,
    group_views.MemberView,
    views.ControllerView,
    views.ReplicaView,
]

CODE = (classmethod, staticmethod, property, functools.cached_property)


def public(cls: type) -> dict[str, Any]:
    """Public methods and properties by name; data attributes are described by their class's docstring."""
    found = {name: inspect.getattr_static(cls, name) for name in dir(cls) if not name.startswith("_")}
    return {name: what for name, what in found.items() if inspect.isfunction(what) or isinstance(what, CODE)}


def silent(cls: type) -> list[str]:
    """The names of a class that promise nothing; "" for the class itself."""
    names = [] if cls.__doc__ else [""]
    for name, what in public(cls).items():
        said = inspect.getdoc(what if isinstance(what, CODE[2:]) else getattr(cls, name))
        if not said:
            names.append(name)
    return names


def differences(blocking: type, on_the_loop: type) -> list[str]:
    """What keeps one from being the other's sibling, in words."""
    ours, theirs = public(blocking), public(on_the_loop)
    left_out = {name for client, name in NOT_ON_THE_LOOP if client is blocking}
    found = [f"aio lacks {name}" for name in sorted(ours.keys() - theirs.keys() - left_out)]
    found += [f"only aio has {name}" for name in sorted(theirs.keys() - ours.keys())]
    found += [f"{name} is excluded but not there" for name in sorted(left_out - ours.keys())]
    found += [f"{name} is excluded but aio has it" for name in sorted(left_out & theirs.keys())]
    for name in sorted(ours.keys() & theirs.keys()):
        here, there = inspect.signature(ours[name]), inspect.signature(theirs[name])
        if list(here.parameters.values()) != list(there.parameters.values()):
            found.append(f"{name} takes {here} and {there}")
        returns = (here.return_annotation, there.return_annotation)
        if returns != RETURNS.get((blocking, name), (here.return_annotation,) * 2):
            found.append(f"{name} returns {returns}")
        if inspect.iscoroutinefunction(theirs[name]) is (name in DOES_NOT_WAIT[blocking]):
            found.append(f"{name} is {'a coroutine' if name in DOES_NOT_WAIT[blocking] else 'no coroutine'}")
    for name, counterpart in SPECIAL.items():
        if hasattr(blocking, name) != hasattr(on_the_loop, counterpart):
            found.append(f"{name} has no {counterpart}, or the other way round")
    return found


@pytest.mark.parametrize(("blocking", "on_the_loop"), PAIRS, ids=IDS)
def test_the_asyncio_clients_are_the_blocking_ones(blocking: type, on_the_loop: type) -> None:
    """The same names, parameters, defaults and types, but for what the tables above say."""
    assert differences(blocking, on_the_loop) == []


@pytest.mark.parametrize("client", [client for pair in PAIRS for client in pair])
def test_every_public_name_of_a_client_says_what_it_promises(client: type) -> None:
    assert silent(client) == []
    assert len(public(client)) > 10


@pytest.mark.parametrize("cls", TESTING_CLASSES, ids=lambda cls: cls.__name__)
def test_every_public_name_of_the_broker_says_what_it_promises(cls: type) -> None:
    assert silent(cls) == []


@pytest.mark.parametrize("module", [aio_admin, aio_consumer, aio_producer], ids=lambda one: one.__name__)
def test_the_asyncio_clients_special_methods_say_it_too(module: ModuleType) -> None:
    (client,) = (
        value
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__
    )
    written = [
        name for name in vars(client) if name.startswith("__a") and inspect.isfunction(vars(client)[name])
    ]
    assert written
    assert [name for name in written if not vars(client)[name].__doc__] == []


def test_the_check_sees_what_is_missing() -> None:
    """A sibling that lacks a name, a parameter or a docstring is found out."""

    class Poorer(aio.KafkaConsumer):
        """Lacks a parameter, and says nothing of one name."""

        async def poll(self, timeout_ms: float = 0, max_records: int | None = None) -> Any:  # type: ignore[override]
            """Without update_offsets."""

        def seek(self, partition: Any, offset: int, quickly: bool = True) -> None:
            return

        def wakeup(self) -> None:
            """Was decided against."""

    found = differences(KafkaConsumer, Poorer)
    assert any(line.startswith("poll takes") for line in found)
    assert any(line.startswith("seek takes") for line in found)
    assert "wakeup is excluded but aio has it" in found
    assert "only aio has seek" in differences(KafkaProducer, aio.KafkaConsumer)
    assert "aio lacks send" in differences(KafkaProducer, aio.KafkaConsumer)
    assert "__len__" not in public(Undelivered)
    assert silent(type("Mute", (), {"name": lambda self: None})) == ["", "name"]
