"""Divides the items of an admin call among brokers: leaders of partitions, coordinators, any broker.

Each function here runs a whole call in rounds (rounds.py). `request(items)` creates the request for one
broker's items, `read(response, items)` returns their values and errors.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka2.admin.outcomes import Outcomes
from pykafka2.admin.rounds import Part, Results, Rounds, is_retriable
from pykafka2.driver.pollable import GROUP, Destination, ToController, ToCoordinator, ToNode
from pykafka2.errors import (
    BrokerError,
    GroupAuthorizationFailed,
    KafkaError,
    LeaderNotAvailable,
    UnknownTopicOrPartition,
    UnsupportedVersion,
    error_of,
)
from pykafka2.types import Node, TopicPartition

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Make = Callable[[list[K]], Any]
Read = Callable[[Any, list[K]], Results[K, V]]


def time_left(cluster: ClusterClient, timeout: float | None) -> Callable[[], float]:
    """Return a function that returns the seconds left until the timeout of a call, 0 after it.

    For calls that send several requests, one after another.
    """
    clock = cluster.driver.clock
    deadline = clock.monotonic() + cluster.seconds_of(timeout)
    return lambda: max(0.0, deadline - clock.monotonic())


def at_leaders(
    cluster: ClusterClient,
    operation: str,
    partitions: Iterable[TopicPartition],
    request: Make[TopicPartition],
    read: Read[TopicPartition, V],
    timeout: float | None,
    *,
    min_version: Callable[[TopicPartition], int | None] = lambda partition: None,
    max_version: int | None = None,
    most: int | None = None,
    waits: bool = True,
) -> Outcomes[TopicPartition, V]:
    """Send one request to each leader; partitions with different `min_version` go in separate requests.

    `most` limits the partitions of one request. Unless it `waits`, partitions without a leader fail at once.
    """

    def divide(
        pending: list[TopicPartition], left: float
    ) -> tuple[list[Part[TopicPartition, V]], dict[TopicPartition, KafkaError]]:
        leaders, errors = leaders_of(cluster, pending, left)
        shares: dict[tuple[int, int | None], list[TopicPartition]] = {}
        for partition, leader in leaders.items():
            shares.setdefault((leader, min_version(partition)), []).append(partition)
        parts = [
            Part(items, request(items), ToNode(leader), _reader(read, items), version, max_version)
            for (leader, version), share in shares.items()
            for items in _slices(share, most)
        ]
        return parts, errors

    return Rounds(cluster, operation, timeout, waits=waits).run(partitions, divide)


def at_coordinators(
    cluster: ClusterClient,
    operation: str,
    kind: int,
    keys: Iterable[str],
    request: Make[str],
    read: Read[str, V],
    timeout: float | None,
    *,
    max_version: int | None = None,
    most: int | None = None,
    with_node: Callable[[V, Node], V] = lambda value, node: value,
    waits: bool = True,
) -> Outcomes[str, V]:
    """Send one request to each coordinator of these groups (kind 0) or transactional ids (kind 1).

    `most` limits the keys of one request; `with_node` adds the coordinator to a value. Unless it `waits`,
    keys whose coordinator cannot be reached fail at once.
    """

    def divide(pending: list[str], left: float) -> tuple[list[Part[str, V]], dict[str, KafkaError]]:
        coordinators, errors = coordinators_of(cluster, kind, pending, left)
        shares: dict[Node, list[str]] = {}
        for key, node in coordinators.items():
            shares.setdefault(node, []).append(key)
        return [part(node, items) for node, share in shares.items() for items in _slices(share, most)], errors

    def part(node: Node, items: list[str]) -> Part[str, V]:
        def read_at(response: Any) -> Results[str, V]:
            found, errors = read(response, items)
            return {key: with_node(value, node) for key, value in found.items()}, errors

        return Part(items, request(items), ToNode(node.id), read_at, max_version=max_version)

    return Rounds(cluster, operation, timeout, waits=waits).run(keys, divide)


def at_brokers(
    cluster: ClusterClient,
    operation: str,
    brokers: Iterable[int],
    request: Make[int],
    read: Callable[[Any, int], V],
    timeout: float | None,
    *,
    retries: Callable[[KafkaError], bool] = is_retriable,
    waits: bool = True,
) -> Outcomes[int, V]:
    """Send one request to each of these brokers; `request` gets a list of one broker id."""

    def part(broker: int) -> Part[int, V]:
        return Part(
            [broker],
            request([broker]),
            ToNode(broker),
            lambda response: ({broker: read(response, broker)}, {}),
        )

    def divide(pending: list[int], left: float) -> tuple[list[Part[int, V]], dict[int, KafkaError]]:
        return [part(broker) for broker in pending], {}

    return Rounds(cluster, operation, timeout, retries, waits).run(brokers, divide)


def at_all_brokers(
    cluster: ClusterClient,
    operation: str,
    request: Make[int],
    read: Callable[[Any, int], V],
    timeout: float | None,
    *,
    waits: bool = True,
) -> Outcomes[int, V]:
    """Send one request to each broker that is up, whose results are what it coordinates.

    If a broker cannot be reached, the requests to all brokers are sent again: others coordinate its groups or
    transactions once it is fenced. Unless it `waits`, that broker has its error.

    Raise the error of a broker that fails for good, or until the timeout. Unless it `waits`, all must fail.
    """
    options, left = cluster.options, time_left(cluster, timeout)
    while True:
        brokers = broker_ids(cluster, left())
        outcomes = at_brokers(
            cluster, operation, brokers, request, read, left(), retries=_is_of_a_reached_broker, waits=waits
        )
        if not outcomes.errors or (outcomes.succeeded and not waits):
            return outcomes
        error = next(iter(outcomes.errors.values()))
        if (
            not waits
            or not error.retriable
            or isinstance(error, BrokerError)
            or left() <= options.retry_backoff_max
        ):
            raise error
        cluster.pause(options.retry_backoff_max)


def _is_of_a_reached_broker(error: KafkaError) -> bool:
    return error.retriable and isinstance(error, BrokerError)


def at_one(
    cluster: ClusterClient,
    operation: str,
    items: Iterable[K],
    request: Make[K],
    read: Read[K, V],
    timeout: float | None,
    *,
    to: Destination | None = None,
    retries: Callable[[KafkaError], bool] = is_retriable,
    max_version: int | None = None,
) -> Outcomes[K, V]:
    """Send all items in one request, by default to the controller.

    Up to Kafka 3.2 the other brokers do not forward it.
    """
    destination = ToController() if to is None else to

    def divide(pending: list[K], left: float) -> tuple[list[Part[K, V]], dict[K, KafkaError]]:
        part = Part(pending, request(pending), destination, _reader(read, pending), max_version=max_version)
        return [part], {}

    return Rounds(cluster, operation, timeout, retries).run(items, divide)


def at_group(
    cluster: ClusterClient,
    operation: str,
    group_id: str,
    items: Iterable[K],
    request: Make[K],
    read: Read[K, V],
    timeout: float | None,
) -> Outcomes[K, V]:
    """Send all items in one request to the coordinator of a group. Raise its error of the whole group."""
    refusals: list[KafkaError] = []

    def read_items(response: Any, some: list[K]) -> Results[K, V]:
        if not response.error_code:
            return read(response, some)
        error = error_of(response.error_code, getattr(response, "error_message", None))
        if not error.retriable:
            refusals.append(error)
        return {}, dict.fromkeys(some, error)

    outcomes = at_one(
        cluster, operation, items, request, read_items, timeout, to=ToCoordinator(GROUP, group_id)
    )
    # Without any right on the group, FindCoordinator has failed for all items.
    refusals += [error for error in outcomes.errors.values() if isinstance(error, GroupAuthorizationFailed)]
    for error in refusals:
        raise error
    return outcomes


def _reader(read: Read[K, V], items: list[K]) -> Callable[[Any], Results[K, V]]:
    return lambda response: read(response, items)


def _slices(items: list[K], most: int | None) -> list[list[K]]:
    step = most or len(items)
    return [items[start : start + step] for start in range(0, len(items), step)]


# ---------------------------------------------------------------------- look-ups


def leaders_of(
    cluster: ClusterClient, partitions: list[TopicPartition], timeout: float
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, KafkaError]]:
    """Return the leader of each partition by a Metadata request, and the errors of those without one."""
    from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

    topics = dict.fromkeys(partition.topic for partition in partitions)
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in topics], allow_auto_topic_creation=False
    )
    leaders: dict[TopicPartition, int] = {}
    errors: dict[TopicPartition, KafkaError] = {}
    topic_errors: dict[str, KafkaError] = {}
    for topic in cluster.request(request, timeout=timeout).topics:
        if topic.error_code:
            text = f"topic {topic.name!r}: {error_of(topic.error_code)}"
            topic_errors[topic.name or ""] = error_of(topic.error_code, text)
        for info in topic.partitions:
            partition = TopicPartition(topic.name or "", info.partition_index)
            if info.leader_id >= 0:
                leaders[partition] = info.leader_id
            else:
                errors[partition] = LeaderNotAvailable(f"{partition} has no leader")
    for partition in partitions:
        if partition in leaders or partition in errors:
            continue
        errors[partition] = topic_errors.get(partition.topic) or UnknownTopicOrPartition(
            f"{partition} does not exist"
        )
    wanted = set(partitions)
    return (
        {partition: leaders[partition] for partition in partitions if partition in leaders},
        {partition: error for partition, error in errors.items() if partition in wanted},
    )


def coordinators_of(
    cluster: ClusterClient, kind: int, keys: list[str], timeout: float
) -> tuple[dict[str, Node], dict[str, KafkaError]]:
    """Return the coordinator of each key, by one FindCoordinator request if the brokers support it."""
    from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest

    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
    found: dict[str, Node] = {}
    errors: dict[str, KafkaError] = {}
    try:
        for entry in cluster.request(request, timeout=timeout).coordinators:
            if entry.error_code:
                errors[entry.key] = error_of(entry.error_code, entry.error_message)
            else:
                found[entry.key] = Node(entry.node_id, entry.host, entry.port)
    except UnsupportedVersion:  # brokers before Kafka 3.0 take one key per request
        for key in keys:
            response = cluster.request(FindCoordinatorRequest(key_type=kind, key=key), timeout=timeout)
            if response.error_code:
                errors[key] = error_of(response.error_code, response.error_message)
            else:
                found[key] = Node(response.node_id, response.host, response.port)
    for node in dict.fromkeys(found.values()):
        cluster.know_node(node)
    return found, errors


def broker_ids(cluster: ClusterClient, timeout: float | None) -> list[int]:
    """Return the ids of the brokers that are up, sorted."""
    from pykafka2.protocol.messages.metadata import MetadataRequest

    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    return sorted(broker.node_id for broker in cluster.request(request, timeout=timeout).brokers)
