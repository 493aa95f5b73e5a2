"""Brokers come, live and go: what the controller makes of registrations and heartbeats.

Functions over the active controller, each one event of its queue (Kafka's ClusterControlManager and
BrokerHeartbeatManager).
"""

from __future__ import annotations

import attrs

from pykafka2.broker.base.endpoints import Endpoint
from pykafka2.broker.base.image import BrokerImage
from pykafka2.broker.controller.controller import Controller
from pykafka2.errors import BrokerIdNotRegistered, StaleBrokerEpoch


@attrs.define(frozen=True)
class Registration:
    """What a broker says of itself."""

    broker_id: int
    endpoints: tuple[Endpoint, ...]
    """Of its listeners, at least one."""
    rack: str | None
    incarnation_id: bytes


@attrs.define(frozen=True)
class HeartbeatReply:
    """What a broker is told in answer to its heartbeat."""

    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool = False


def register(controller: Controller, new: Registration) -> int:
    """Register a broker, fenced until its first heartbeat; its broker epoch.

    The same incarnation registers again with what it had.  Another one while the old registration still
    lives takes its place: its leaderships move, its epoch ends, and it comes back as a follower (Kafka
    answers DUPLICATE_BROKER_REGISTRATION until the old session has ended, see docs/fidelity.md).
    """
    old = controller.state.brokers.get(new.broker_id)
    if old is not None and old.incarnation_id == new.incarnation_id:
        return old.epoch
    epoch = controller.log.end_offset
    controller.set_broker(
        BrokerImage(
            new.broker_id,
            new.endpoints[0].host,
            new.endpoints[0].port,
            new.rack,
            epoch,
            is_fenced=True,
            incarnation_id=new.incarnation_id,
            endpoints=new.endpoints,
        )
    )
    return epoch


def check_epoch(controller: Controller, broker_id: int, epoch: int) -> BrokerImage:
    """The registration under this epoch; `BrokerIdNotRegistered`, `StaleBrokerEpoch` if it is not the one."""
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
) -> HeartbeatReply:
    """A heartbeat that changes something: unfence a broker that has the metadata, fence it, or let it go."""
    broker = check_epoch(controller, broker_id, epoch)
    is_caught_up = metadata_offset > epoch
    if want_shut_down:
        return _shut_down(controller, broker, is_caught_up)
    if broker.is_fenced and not want_fence and is_caught_up:
        controller.set_broker(attrs.evolve(broker, is_fenced=False, is_shutting_down=False))
        return HeartbeatReply(is_caught_up, is_fenced=False)
    if not broker.is_fenced and want_fence:
        controller.set_broker(attrs.evolve(broker, is_fenced=True))
        return HeartbeatReply(is_caught_up, is_fenced=True)
    return HeartbeatReply(is_caught_up, broker.is_fenced)


def _shut_down(controller: Controller, broker: BrokerImage, is_caught_up: bool) -> HeartbeatReply:
    """Move the leaderships of a broker that wants to stop; it may when it leads nothing any more."""
    if not broker.is_fenced and not broker.is_shutting_down:
        broker = attrs.evolve(broker, is_shutting_down=True)
        controller.set_broker(broker)
    # What nobody else can lead has no leader by now, so nothing holds the broker back.
    if not broker.is_fenced:
        controller.set_broker(attrs.evolve(broker, is_fenced=True))
    return HeartbeatReply(is_caught_up, is_fenced=True, should_shut_down=True)
