"""Broker registrations, heartbeats and sessions.

Functions over the active controller, each one event of its queue (Kafka's ClusterControlManager and
BrokerHeartbeatManager). A broker whose last heartbeat is older than broker.session.timeout.ms has lost its
session. Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Collection

import attrs

from pykafka2.broker.base.image import BrokerImage, Endpoint
from pykafka2.broker.controller.controller import Controller
from pykafka2.clock import FOREVER
from pykafka2.errors import BrokerIdNotRegistered, StaleBrokerEpoch


@attrs.define(frozen=True)
class Registration:
    """A broker's registration request."""

    broker_id: int
    endpoints: tuple[Endpoint, ...]
    """The endpoints of its listeners, at least one."""
    rack: str | None
    incarnation_id: bytes
    directories: tuple[bytes, ...] = ()
    """The ids of its log directories that work; empty if it has none on disk."""
    previous_epoch: int = -1
    """The epoch in which it was shut down cleanly, -1 if it was not."""


@attrs.define(frozen=True)
class HeartbeatResult:
    """The response to a broker's heartbeat."""

    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool = False


def register(controller: Controller, new: Registration) -> int:
    """Register a broker, fenced until its first heartbeat. Return its broker epoch.

    The same incarnation keeps its registration. Another incarnation replaces a live registration: its
    leaderships move, its epoch ends, and it returns as a follower (Kafka responds
    DUPLICATE_BROKER_REGISTRATION until the old session has expired, see docs/fidelity.md).
    """
    old = controller.state.brokers.get(new.broker_id)
    if old is not None and old.incarnation_id == new.incarnation_id:
        return old.epoch
    epoch = controller.log.end_offset
    broker = BrokerImage(
        new.broker_id,
        new.endpoints[0].host,
        new.endpoints[0].port,
        new.rack,
        epoch,
        is_fenced=True,
        incarnation_id=new.incarnation_id,
        endpoints=new.endpoints,
        directories=new.directories,
    )
    has_elr = controller.image.has_eligible_replicas
    if old is not None and has_elr and new.previous_epoch != old.epoch:
        controller.lose_broker(broker)
    elif old is not None and old.is_fenced:
        controller.return_broker(broker)
    else:
        controller.set_broker(broker)
    return epoch


def check_epoch(controller: Controller, broker_id: int, epoch: int) -> BrokerImage:
    """Return the registration with this epoch. Raise `BrokerIdNotRegistered` or `StaleBrokerEpoch`."""
    broker = controller.state.brokers.get(broker_id)
    if broker is None:
        raise BrokerIdNotRegistered(f"broker {broker_id} is not registered")
    if broker.epoch != epoch:
        raise StaleBrokerEpoch(f"broker {broker_id} is registered with epoch {broker.epoch}, not {epoch}")
    return broker


def process_heartbeat(
    controller: Controller,
    broker_id: int,
    epoch: int,
    metadata_offset: int,
    *,
    want_fence: bool,
    want_shut_down: bool,
    failed: Collection[bytes] = (),
) -> HeartbeatResult:
    """Apply a heartbeat: unfence a broker that has the metadata, fence it, or let it shut down.

    Its log directories in `failed` are offline from now on.
    """
    check_epoch(controller, broker_id, epoch)
    if failed:
        controller.fail_directories(broker_id, failed)
    broker = check_epoch(controller, broker_id, epoch)
    is_caught_up = metadata_offset > epoch
    if want_shut_down:
        return _shut_down(controller, broker, is_caught_up)
    if broker.is_fenced and not want_fence and is_caught_up:
        controller.set_broker(attrs.evolve(broker, is_fenced=False, is_shutting_down=False))
        return HeartbeatResult(is_caught_up, is_fenced=False)
    if not broker.is_fenced and want_fence:
        controller.set_broker(attrs.evolve(broker, is_fenced=True))
        return HeartbeatResult(is_caught_up, is_fenced=True)
    return HeartbeatResult(is_caught_up, broker.is_fenced)


def _shut_down(controller: Controller, broker: BrokerImage, is_caught_up: bool) -> HeartbeatResult:
    """Move the leaderships of a broker that shuts down; it can stop once it leads nothing."""
    if not broker.is_fenced and not broker.is_shutting_down:
        broker = attrs.evolve(broker, is_shutting_down=True)
        controller.set_broker(broker)
    # Partitions that no other broker can lead have no leader now, so nothing keeps the broker.
    if not broker.is_fenced:
        controller.set_broker(attrs.evolve(broker, is_fenced=True))
    return HeartbeatResult(is_caught_up, is_fenced=True, should_shut_down=True)


class BrokerSessions:
    """Last contacts by broker; `timeout` in seconds."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._contacts: dict[int, float] = {}

    def touch(self, broker_id: int, now: float) -> None:
        """Record a heartbeat of a broker."""
        self._contacts[broker_id] = now

    def forget(self, broker_id: int) -> None:
        self._contacts.pop(broker_id, None)

    def restart(self, brokers: list[int], now: float) -> None:
        """Start sessions of exactly these brokers now."""
        self._contacts = dict.fromkeys(brokers, now)

    def is_valid(self, broker_id: int, now: float) -> bool:
        contact = self._contacts.get(broker_id)
        return contact is not None and now - contact < self.timeout

    def end_overdue(self, now: float) -> list[int]:
        """End the sessions of brokers without a recent heartbeat. Return these brokers."""
        ended = [broker for broker, contact in self._contacts.items() if now - contact >= self.timeout]
        for broker in ended:
            del self._contacts[broker]
        return ended

    def next_end(self) -> float:
        """Return when the next session expires without further heartbeats."""
        return min(self._contacts.values(), default=FOREVER) + self.timeout
