"""Finds the coordinators of groups and transactional ids: one lookup at a time per key.

Owned by the driver's thread, which polls it. A lookup is cleared when it ends on any path (response, error,
disconnect, timeout), so the next request that needs the coordinator starts another (KAFKA-13840). router.py
calls `node_of` for each request to a coordinator, and `want` while the request waits.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from pykafka2.backoff import Backoff
from pykafka2.clock import FOREVER
from pykafka2.cluster.validation import checked_node
from pykafka2.driver.pollable import GROUP, AnyNode, PollResult, Send, ToCoordinator
from pykafka2.errors import CorruptResponse, KafkaError, UnsupportedVersion, error_of
from pykafka2.events import EventSink, LookupEnded, LookupStarted
from pykafka2.options import ClientOptions
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pykafka2.slotted import slotted
from pykafka2.types import Node

LAST_VERSION_WITH_ONE_KEY = 3


@slotted
class _Lookup:
    """The known facts about one key's coordinator, and whether a lookup is in flight."""

    backoff: Backoff
    node: Node | None = None
    is_wanted: bool = False
    in_flight: bool = False
    not_before: float = -FOREVER
    found_at: float = -FOREVER
    error: KafkaError | None = None
    """Error of the last lookup; None if it found a broker."""


@slotted
class _Found:
    """The result for one key, from either version of the response."""

    node: Node
    error_code: int
    error_message: str | None


class Coordinators:
    """Finds coordinators and remembers them until they are forgotten (a `Pollable`).

    `on_found(node)` receives the address of a coordinator that the metadata may not list yet;
    `on_refused(to, error, now)` receives an error that is not retriable.
    """

    def __init__(
        self,
        options: ClientOptions,
        random: random.Random,
        event_sink: EventSink,
        *,
        wake: Callable[[], None],
        on_found: Callable[[Node], None],
        on_refused: Callable[[ToCoordinator, KafkaError, float], None],
    ) -> None:
        self._options = options
        self._random = random
        self._event_sink = event_sink
        self._wake = wake
        self._on_found = on_found
        self._on_refused = on_refused
        self.work = self._lookups = dict[ToCoordinator, _Lookup]()
        self._brokers_know_batches = True

    def node_of(self, to: ToCoordinator) -> int | None:
        """Return the id of the coordinator's broker, or None if it is unknown."""
        lookup = self._lookups.get(to)
        return lookup.node.id if lookup is not None and lookup.node is not None else None

    def why_unknown(self, to: ToCoordinator) -> KafkaError | None:
        """Return the error of the last lookup, or None if it succeeded or none has ended. Any thread."""
        lookup = self._lookups.get(to)
        return lookup.error if lookup is not None else None

    def want(self, to: ToCoordinator) -> None:
        """Look it up unless it is known; call again for as long as a request waits."""
        lookup = self._lookups.get(to)
        if lookup is None:
            backoff = Backoff(self._options.retry_backoff, self._options.retry_backoff_max, self._random)
            lookup = self._lookups[to] = _Lookup(backoff)
        if lookup.node is None and not lookup.is_wanted and not lookup.in_flight:
            lookup.is_wanted = True
            self._wake()  # the router, which calls this, is polled after this manager

    def forget(self, to: ToCoordinator, node_id: int) -> None:
        """Look up again after this broker could not be reached, unless the coordinator has moved since."""
        lookup = self._lookups.get(to)
        if lookup is not None and lookup.node is not None and lookup.node.id == node_id:
            lookup.node = None

    def forget_answerer(self, send: Send[Any]) -> None:
        """Look up again after the broker that received `send` responded that it is not the coordinator.

        Ignored if a lookup has ended since the request was sent: the response can be older than that.
        """
        lookup = self._lookups.get(send.to) if isinstance(send.to, ToCoordinator) else None
        if lookup is None or lookup.node is None or lookup.node.id != send.sent_to:
            return
        if send.sent_at is not None and lookup.found_at > send.sent_at:
            return
        lookup.node = None

    def forget_node(self, node_id: int) -> None:
        """Look up again every key that this broker coordinated, after its connection was lost."""
        for lookup in self._lookups.values():
            if lookup.node is not None and lookup.node.id == node_id:
                lookup.node = None

    def poll(self, now: float) -> PollResult:
        result = PollResult([])
        for to, lookup in self._lookups.items():
            if not lookup.is_wanted or lookup.in_flight:
                continue
            if now < lookup.not_before:
                result.wake_at = min(result.wake_at, lookup.not_before)
                continue
            lookup.is_wanted = False
            lookup.in_flight = True
            self._event_sink.emit(LookupStarted(now, self._kind(to), to.key))
            result.sends.append(self._send(to))
        return result

    def _send(self, to: ToCoordinator) -> Send[FindCoordinatorResponse]:
        is_batch = self._brokers_know_batches
        if is_batch:
            request = FindCoordinatorRequest(key_type=to.kind, coordinator_keys=[to.key])
        else:
            request = FindCoordinatorRequest(key_type=to.kind, key=to.key)
        return Send(
            request,
            AnyNode(),
            partial(self._on_response, to),
            partial(self._on_failure, to, is_batch),
            # For all brokers, as the one that will respond is not known yet.
            max_version=None if is_batch else LAST_VERSION_WITH_ONE_KEY,
        )

    def _on_response(self, to: ToCoordinator, response: FindCoordinatorResponse, now: float) -> None:
        found = self._result_for(to, response)
        if found.error_code:
            self._end(to, None, error_of(found.error_code, found.error_message), now)
            return
        try:
            node = checked_node(found.node.id, found.node.host, found.node.port)
        except CorruptResponse as error:
            self._end(to, None, error, now)
        else:
            self._end(to, node, None, now)

    def _on_failure(self, to: ToCoordinator, was_batch: bool, error: KafkaError, now: float) -> None:
        if isinstance(error, UnsupportedVersion) and was_batch:
            self._brokers_know_batches = False  # brokers before KIP-699 take one key per request
            lookup = self._lookups[to]
            lookup.in_flight, lookup.is_wanted = False, True
            return
        self._end(to, None, error, now)

    def _result_for(self, to: ToCoordinator, response: FindCoordinatorResponse) -> _Found:
        for coordinator in response.coordinators:
            if coordinator.key == to.key:
                node = Node(coordinator.node_id, coordinator.host, coordinator.port)
                return _Found(node, coordinator.error_code, coordinator.error_message)
        node = Node(response.node_id, response.host, response.port)
        return _Found(node, response.error_code, response.error_message)

    def _end(self, to: ToCoordinator, node: Node | None, error: KafkaError | None, now: float) -> None:
        lookup = self._lookups[to]
        # Cleared on every path; otherwise the next request would wait for a lookup that has ended.
        lookup.in_flight = lookup.is_wanted = False
        lookup.node, lookup.error = node, error
        self._event_sink.emit(
            LookupEnded(now, self._kind(to), to.key, node.id if node else None, str(error) if error else None)
        )
        if node is not None:
            lookup.backoff.reset()
            lookup.found_at = now
            self._on_found(node)
            return
        lookup.not_before = now + lookup.backoff.next()
        if error is not None and not error.retriable:
            self._on_refused(to, error, now)

    def _kind(self, to: ToCoordinator) -> str:
        return "group" if to.kind == GROUP else "transaction"
