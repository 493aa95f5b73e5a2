"""Requests to brokers by id, which fail at once if the broker is not running."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, TypeVar

from pykafka2.errors import BrokerNotAvailable, KafkaError

if TYPE_CHECKING:
    from pykafka2 import KafkaAdminClient
    from pykafka2.admin import Outcomes

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def at_live_brokers(
    client: KafkaAdminClient,
    items: list[K],
    broker_of: Callable[[K], int | None],
    call: Callable[[list[K]], Outcomes[K, V]],
) -> Outcomes[K, V]:
    """Call with the items whose broker is running, and with those of no broker.

    The others fail after one look at the metadata. The client itself retries until default.api.timeout.ms,
    because a broker that restarts is missing from the metadata for a while.
    """
    from pykafka2.admin import Outcomes

    if all(broker_of(item) is None for item in items):
        return call(items)
    running = sorted(node.id for node in client.describe_cluster().nodes)
    errors: dict[K, KafkaError] = {
        item: BrokerNotAvailable(
            f"Broker {broker} does not exist or is not running. "
            f"Running brokers: {', '.join(map(str, running))}."
        )
        for item in items
        if (broker := broker_of(item)) is not None and broker not in running
    }
    rest = [item for item in items if item not in errors]
    outcomes: Outcomes[K, V] = call(rest) if rest else Outcomes({}, {})
    return Outcomes(outcomes.succeeded, {**errors, **outcomes.errors})
