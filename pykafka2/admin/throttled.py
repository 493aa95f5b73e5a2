"""Repeats changes of topics that the controller mutation quota rejected (KIP-599).

The broker also throttles the connection, so that the next request waits as long as necessary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from pykafka2.cluster.client import ClusterClient
from pykafka2.errors import KafkaError, ThrottlingQuotaExceeded

T = TypeVar("T")


def until_accepted(
    cluster: ClusterClient,
    items: Sequence[T],
    send: Callable[[Sequence[T], float], tuple[dict[str, KafkaError], int]],
    name_of: Callable[[T], str],
    timeout: float | None,
) -> dict[str, KafkaError]:
    """Send items until none is rejected for a quota, or the next attempt would exceed the timeout.

    `send` is called with items and the seconds left, and return errors by name and throttle_time_ms. Return
    the errors of all items.
    """
    clock = cluster.driver.clock
    deadline = clock.monotonic() + cluster.seconds_of(timeout)
    errors: dict[str, KafkaError] = {}
    while True:
        found, throttle_ms = send(items, max(deadline - clock.monotonic(), 0.0))
        errors |= found
        items = [item for item in items if isinstance(found.get(name_of(item)), ThrottlingQuotaExceeded)]
        if not items or clock.monotonic() + throttle_ms / 1000.0 >= deadline:
            return errors
        for item in items:
            del errors[name_of(item)]
