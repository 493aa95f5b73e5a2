"""Liveness and readiness of a service by its clients, for the probes of Kubernetes and load balancers.

Both functions send nothing and never block; call them on any thread, such as that of an HTTP server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from pykafka2.types import Metric

LONGEST_STALL = 60.0


class Client(Protocol):
    """Any producer, consumer or admin client, also those for asyncio."""

    def metric_rows(self) -> list[Metric]: ...

    def health(self) -> Any: ...


def liveness(*clients: Client) -> list[str]:
    """Return why the process must be restarted; an empty list if it must not.

    A client that is closed, or whose IO thread has failed, never works again. A cluster that is away is no
    reason: the client connects again by itself.
    """
    return [f"{_name(client)} {reason}" for client in clients for reason in _ends(client.health())]


def readiness(*clients: Client, longest_stall: float = LONGEST_STALL) -> list[str]:
    """Return why the clients cannot work now; an empty list if they can.

    Reasons are those of `liveness`, no connection (also before the first call that needs the cluster), an
    error of the last Metadata request, calls of send() that wait for buffer_memory, and partitions that did
    not advance for more than `longest_stall` seconds although there is more to read.
    """
    return [
        f"{_name(client)} {reason}"
        for client in clients
        for reason in _obstacles(client.health(), longest_stall)
    ]


def _name(client: Client) -> str:
    return f"{type(client).__name__} {client.metric_rows()[0].tags['client-id']!r}"


def _ends(health: Mapping[str, Any]) -> Iterator[str]:
    if health["state"] != "open":
        failure = f": {health['failure']}" if health["failure"] else ""
        yield f"is {health['state']}{failure}"


def _obstacles(health: Mapping[str, Any], longest_stall: float) -> Iterator[str]:
    yield from _ends(health)
    if health["state"] != "open":
        return
    if not health["connected"]:
        reached = "; ".join(f"{address}: {reason}" for address, reason in health["unreachable"].items())
        yield f"is not connected: {reached}" if reached else "is not connected"
    if health["metadata_error"]:
        yield f"cannot read the metadata: {health['metadata_error']}"
    waiting = health.get("senders_waiting_for_memory", 0)
    if waiting:
        yield f"has {waiting} calls of send() that wait for buffer_memory"
    for name, partition in health.get("partitions", {}).items():
        stall = partition.get("stands_still_for", 0.0)
        if stall > longest_stall:
            yield f"has not advanced in {name} for {stall:.0f} s"
