"""The public names: what each says of itself."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import pytest

from pykafka2 import (
    BulkDelivery,
    ClusterView,
    Delivery,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    Partitioner,
    ProducerInterceptor,
    ProducerRecord,
    testing,
)
from pykafka2.broker.broker import Broker
from pykafka2.broker.faults.throttle_rules import ThrottleRule
from pykafka2.broker.server.request_metrics import ApiMetrics, Histogram, RequestMetrics
from pykafka2.consumer.state.iteration_queue import IterationQueue
from pykafka2.testing.remote.cluster import BrokerView, ProcessCluster
from pykafka2.testing.remote.http_client import AdminClient
from pykafka2.testing.remote.http_port import AdminPort
from pykafka2.testing.simulation.actors import Actor
from pykafka2.testing.simulation.sync import SimEvent, SimQueue
from pykafka2.testing.views import groups as group_views
from pykafka2.testing.views import partitions as views

CLIENTS: list[type] = [KafkaProducer, KafkaConsumer, KafkaAdminClient]

AROUND_A_PRODUCER: list[type] = [
    BulkDelivery,
    ClusterView,
    Delivery,
    Partitioner,
    ProducerInterceptor,
    ProducerRecord,
]

TESTING_CLASSES: list[type] = [
    *(one for one in (getattr(testing, name) for name in testing.__all__) if isinstance(one, type)),
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


@pytest.mark.parametrize("client", CLIENTS)
def test_every_public_name_of_a_client_has_a_docstring(client: type) -> None:
    assert silent(client) == []
    assert len(public(client)) > 10


@pytest.mark.parametrize("cls", AROUND_A_PRODUCER, ids=lambda cls: cls.__name__)
def test_every_public_name_around_a_producer_has_a_docstring(cls: type) -> None:
    assert silent(cls) == []


@pytest.mark.parametrize("cls", TESTING_CLASSES, ids=lambda cls: cls.__name__)
def test_every_public_name_of_the_broker_has_a_docstring(cls: type) -> None:
    assert silent(cls) == []


def test_missing_docstrings_are_found() -> None:
    """A class or a name that says nothing is found out."""
    assert "__len__" not in public(IterationQueue)
    assert silent(type("Mute", (), {"name": lambda self: None})) == ["", "name"]
