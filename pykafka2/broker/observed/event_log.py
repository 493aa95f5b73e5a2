"""Events of a cluster besides requests.

These are leader and ISR changes, broker registrations, faults, rejected clients, and more.

Bounded: the oldest events are dropped first. Written under the cluster's lock, read from any thread;
timeline.py shows it together with the request history.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import attrs

from pykafka2.broker.base.image import NO_LEADER, ClusterImage, PartitionImage, TopicImage
from pykafka2.broker.config.keys import nearest
from pykafka2.errors import ConfigurationError
from pykafka2.text import printable, shown

MAX_EVENTS = 10_000
# Limits of distinct entries for closed connections and for denied access.
MAX_REFUSALS = 100
MAX_DENIALS = 1_000
KINDS = (
    "broker",
    "cluster",
    "controller",
    "denied",
    "fault",
    "group",
    "isr",
    "leader",
    "refused",
    "topic",
    "transaction",
)


@attrs.define(frozen=True)
class ClusterEvent:
    """One event: `kind` is one of `KINDS`, `facts` describe it as data.

    `at` is a time of the brokers' monotonic clock.
    """

    at: float
    kind: str
    text: str
    facts: Mapping[str, object]


def check_kind(kind: str | None) -> None:
    """Raise `ConfigurationError` with the nearest kind for an unknown one."""
    if kind is not None and kind not in KINDS:
        raise ConfigurationError(f"unknown event kind {kind!r}{nearest(kind, KINDS)}")


class EventLog:
    """The events of one cluster, in order."""

    def __init__(self, max_events: int = MAX_EVENTS) -> None:
        self._events: deque[ClusterEvent] = deque(maxlen=max_events)
        self._image: ClusterImage | None = None
        self._refusals: dict[tuple[int, str, str], None] = {}
        self._denials: set[tuple[int, str, str]] = set()

    def note(self, at: float, kind: str, text: str, **facts: object) -> None:
        """Record an event."""
        self._events.append(ClusterEvent(at, kind, printable(text), facts))

    def events(self, kind: str | None = None) -> list[ClusterEvent]:
        """Return the events of one kind (see `KINDS`; an unknown one raises) or all, oldest first."""
        check_kind(kind)
        return [event for event in list(self._events) if kind in (None, event.kind)]

    def client_refused(self, now: float, broker: int, client: str, reason: str, host: str = "") -> None:
        """Record that a broker closed a client's connection because of its request; `host` if it matters.

        Recorded once for each client and reason, because clients retry.
        """
        client, reason = f"{shown(client)} at {host}" if host else shown(client), shown(reason)
        refusal = (broker, client, reason)
        if refusal not in self._refusals and len(self._refusals) < MAX_REFUSALS:
            self._refusals[refusal] = None
            text = f"broker {broker} closed a connection of {client}: {reason}"
            self.note(now, "refused", text, broker=broker, client=client, reason=reason)

    def access_denied(
        self,
        now: float,
        broker: int,
        principal: str,
        host: str,
        api: str,
        operation: str,
        resource_type: str,
        resource: str,
    ) -> None:
        """Record that authorization rejected a request, wholly or in part.

        Recorded once for each principal, API and resource, because clients retry. Limited to a thousand,
        because clients can also try many names.
        """
        principal, resource = shown(principal), shown(resource)
        denial = (broker, principal, f"{api} {operation} {resource_type} {resource}")
        if denial not in self._denials and len(self._denials) < MAX_DENIALS:
            self._denials.add(denial)
            facts = {
                "broker": broker,
                "principal": principal,
                "host": host,
                "api": api,
                "operation": operation,
                "resource_type": resource_type,
                "resource": resource,
            }
            text = f"{principal} from {host} may not {operation} {resource_type} {resource} ({api})"
            self.note(now, "denied", text, **facts)

    def clear(self) -> None:
        self._events.clear()
        self._refusals.clear()
        self._denials.clear()

    # ------------------------------------------------------------------ called by the controller

    def image_changed(self, new: ClusterImage, changed: Mapping[str, TopicImage | None], now: float) -> None:
        """Record the differences of a new image; `changed` are the topics that differ (None: deleted)."""
        old, self._image = self._image, new
        if old is None:
            return
        for broker_id, broker in new.brokers.items():
            known = old.brokers.get(broker_id)
            if known is None or known.epoch != broker.epoch:
                self.note(
                    now, "broker", f"broker {broker_id} registered, epoch {broker.epoch}", broker=broker_id
                )
            elif known.is_fenced != broker.is_fenced:
                word = "fenced" if broker.is_fenced else "unfenced"
                self.note(now, "broker", f"broker {broker_id} {word}", broker=broker_id, state=word)
        for name, topic in changed.items():
            self._topic_changed(name, old.topics.get(name), topic, now)

    def _topic_changed(self, name: str, old: TopicImage | None, new: TopicImage | None, now: float) -> None:
        if new is None:
            self.note(now, "topic", f"{name} deleted", topic=name)
            return
        if old is None or old.id != new.id:
            count = len(new.partitions)
            self.note(now, "topic", f"{name} created, {count} partitions", topic=name, partitions=count)
            return
        for number, partition in enumerate(new.partitions):
            if number < len(old.partitions):
                self._partition_changed(f"{name}-{number}", old.partitions[number], partition, now)
        if len(new.partitions) > len(old.partitions):
            count = len(new.partitions)
            self.note(now, "topic", f"{name} has {count} partitions", topic=name, partitions=count)

    def _partition_changed(self, name: str, old: PartitionImage, new: PartitionImage, now: float) -> None:
        if (old.leader, old.leader_epoch) != (new.leader, new.leader_epoch):
            leader = "no broker" if new.leader == NO_LEADER else f"broker {new.leader}"
            text = f"{name} is led by {leader}, epoch {new.leader_epoch} (before: {old.leader})"
            self.note(now, "leader", text, partition=name, leader=new.leader, epoch=new.leader_epoch)
        if old.isr != new.isr:
            text = f"{name} has ISR {list(new.isr)} (before: {list(old.isr)})"
            self.note(now, "isr", text, partition=name, isr=list(new.isr), before=list(old.isr))
