"""Coordinator lookups with several keys: which ones a lost connection, an error or a late answer concerns."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pykafka2.cluster.coordinators import LAST_VERSION_WITH_ONE_KEY, Coordinators
from pykafka2.driver.pollable import GROUP, TRANSACTION, Send, ToCoordinator, ToNode
from pykafka2.errors import CoordinatorNotAvailable, GroupAuthorizationFailed, KafkaError, UnsupportedVersion
from pykafka2.events import Event, EventSink, LookupEnded, LookupStarted
from pykafka2.protocol.messages.coordinator import Coordinator, FindCoordinatorResponse
from pykafka2.protocol.messages.group import HeartbeatRequest
from tests.cluster.scripted import BOOTSTRAP, CLIENT_OPTIONS

GROUP_G, GROUP_H = ToCoordinator(GROUP, "g"), ToCoordinator(GROUP, "h")
TRANSACTION_G = ToCoordinator(TRANSACTION, "g")
BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


class Lookups:
    """Lookups of any keys, answered by hand."""

    def __init__(self) -> None:
        options = CLIENT_OPTIONS.parse(None, {"bootstrap_servers": BOOTSTRAP})
        self.wakes = 0
        self.refusals: list[tuple[ToCoordinator, KafkaError]] = []
        self.events: list[Event] = []
        event_sink = EventSink()
        event_sink.subscribe(self.events.append)
        self.coordinators = Coordinators(
            options,
            random.Random(1),
            event_sink,
            wake=self.wake,
            on_found=lambda node: None,
            on_refused=lambda to, error, now: self.refusals.append((to, error)),
        )

    def wake(self) -> None:
        self.wakes += 1

    def ask(self, now: float, *keys: ToCoordinator) -> list[Send[Any]]:
        for to in keys:
            self.coordinators.want(to)
        return self.coordinators.poll(now).sends

    def find(
        self, now: float, node_id: int = 2, port: int = 9092, error_code: int = 0, to: ToCoordinator = GROUP_G
    ) -> int | None:
        entry = Coordinator(key=to.key, node_id=node_id, host="b", port=port, error_code=error_code)
        (send,) = self.ask(now, to)
        send.on_response(FindCoordinatorResponse(coordinators=[entry]), now)
        return self.coordinators.node_of(to)

    def known(self, *keys: ToCoordinator) -> list[int | None]:
        return [self.coordinators.node_of(to) for to in keys]


def answered_by(to: ToCoordinator | ToNode, node_id: int, sent_at: float | None) -> Send[Any]:
    send = Send(BEAT, to, lambda response, now: None, lambda error, now: None)
    send.sent_to, send.sent_at = node_id, sent_at
    return send


# ---------------------------------------------------------------------- what is forgotten


def test_a_lost_connection_forgets_every_group_and_transaction_of_that_broker_alone() -> None:
    """KAFKA-13840."""
    lookups = Lookups()
    elsewhere, unknown = ToCoordinator(GROUP, "elsewhere"), ToCoordinator(GROUP, "unknown")
    lookups.find(1.0, node_id=3, to=elsewhere)
    lookups.ask(1.0, unknown)
    for to in (GROUP_G, GROUP_H, TRANSACTION_G):
        lookups.find(1.0, node_id=2, to=to)
    lookups.coordinators.forget_node(2)
    assert lookups.known(GROUP_G, GROUP_H, TRANSACTION_G, elsewhere) == [None, None, None, 3]
    sends = lookups.ask(2.0, GROUP_G, GROUP_H, TRANSACTION_G, elsewhere)
    assert [(one.request.key_type, one.request.coordinator_keys) for one in sends] == [
        (GROUP, ["g"]),
        (GROUP, ["h"]),
        (TRANSACTION, ["g"]),
    ]


def test_an_error_of_one_coordinator_leaves_the_others_on_its_broker() -> None:
    lookups = Lookups()
    for to in (GROUP_G, GROUP_H, TRANSACTION_G):
        lookups.find(1.0, to=to)
    lookups.coordinators.forget(GROUP_H, 2)
    assert lookups.known(GROUP_G, GROUP_H, TRANSACTION_G) == [2, None, 2]
    lookups.coordinators.forget_answerer(answered_by(GROUP_G, 2, 5.0))
    assert lookups.known(GROUP_G, GROUP_H, TRANSACTION_G) == [None, None, 2]


def test_forgetting_an_unknown_coordinator_does_nothing() -> None:
    lookups = Lookups()
    for _ in range(2):
        lookups.coordinators.forget(GROUP_G, 2)
        lookups.coordinators.forget_answerer(answered_by(GROUP_G, 2, 5.0))
        lookups.coordinators.forget_answerer(answered_by(ToNode(2), 2, 5.0))
        lookups.ask(1.0, GROUP_G)  # from now on it is looked up
    assert lookups.find(1.0, to=GROUP_H) == 2


def test_a_response_to_a_request_of_unknown_age_forgets_the_coordinator() -> None:
    lookups = Lookups()
    lookups.find(1.0)
    lookups.coordinators.forget_answerer(answered_by(GROUP_G, 2, None))
    assert lookups.known(GROUP_G) == [None]


def test_error_of_another_broker_keeps_the_coordinator() -> None:
    lookups = Lookups()
    assert lookups.find(1.0) == 2
    lookups.coordinators.forget(GROUP_G, 1)
    lookups.coordinators.forget_answerer(answered_by(GROUP_G, 1, 5.0))
    assert lookups.coordinators.node_of(GROUP_G) == 2
    lookups.coordinators.forget_answerer(answered_by(GROUP_G, 2, 5.0))
    assert lookups.coordinators.node_of(GROUP_G) is None


# ---------------------------------------------------------------------- what is looked up, and when


def test_waiting_for_a_pending_lookup_does_not_wake_the_driver() -> None:
    lookups = Lookups()
    lookups.ask(1.0, GROUP_G)
    for _ in range(5):
        lookups.coordinators.want(GROUP_G)
    assert lookups.wakes == 1
    assert lookups.coordinators.poll(1.0).sends == []


def test_known_coordinator_is_not_looked_up_again() -> None:
    lookups = Lookups()
    lookups.find(1.0)
    wakes = lookups.wakes
    assert lookups.ask(100.0, GROUP_G) == []
    assert lookups.wakes == wakes


def test_lookup_in_backoff_or_in_flight_blocks_no_other() -> None:
    lookups = Lookups()
    lookups.find(1.0, error_code=CoordinatorNotAvailable.code)
    (lookup,) = lookups.ask(1.0, GROUP_G, GROUP_H)
    assert lookup.request.coordinator_keys == ["h"]
    (lookup,) = lookups.ask(1.0, GROUP_H, TRANSACTION_G)
    assert lookup.request.key_type == TRANSACTION


@pytest.mark.parametrize(
    "failures",
    [[(1.0, GROUP_G), (1.05, GROUP_H)], [(1.0, GROUP_G), (1.0, GROUP_H), (2.0, GROUP_H), (2.1, GROUP_G)]],
    ids=["first of the table", "last of the table"],
)
def test_lookups_in_backoff_wake_the_driver_for_the_earliest(
    failures: list[tuple[float, ToCoordinator]],
) -> None:
    lookups = Lookups()
    for now, to in failures:
        lookups.find(now, error_code=CoordinatorNotAvailable.code, to=to)
    lookups.coordinators.want(GROUP_G)
    lookups.coordinators.want(GROUP_H)
    (now, last), (_, earlier) = failures[-1], failures[-2]
    table = lookups.coordinators._lookups
    assert now < table[earlier].not_before < table[last].not_before
    assert lookups.coordinators.poll(now).wake_at == table[earlier].not_before


def test_lookup_backoff_restarts_after_a_successful_lookup() -> None:
    lookups, now = Lookups(), 0.0
    for _ in range(6):
        now += 100
        lookups.find(now, error_code=CoordinatorNotAvailable.code)
    assert lookups.coordinators._lookups[GROUP_G].not_before > now + 0.5
    assert lookups.find(now + 100) == 2
    lookups.coordinators.forget(GROUP_G, 2)
    lookups.find(now + 200, error_code=CoordinatorNotAvailable.code)
    assert lookups.coordinators._lookups[GROUP_G].not_before < now + 200.2


# ---------------------------------------------------------------------- what answers mean


def test_a_coordinator_that_cannot_be_reached_by_any_means_is_none() -> None:
    lookups = Lookups()
    assert lookups.find(1.0, port=0) is None
    assert lookups.find(9.0, node_id=-1) is None
    assert lookups.find(99.0) == 2


def test_each_key_of_a_lookup_response_gets_its_own_coordinator() -> None:
    lookups = Lookups()
    entries = [Coordinator(key=key, node_id=node, host="b", port=9092) for key, node in (("g", 1), ("h", 2))]
    for send in lookups.ask(1.0, GROUP_H, GROUP_G):
        send.on_response(FindCoordinatorResponse(coordinators=entries), 1.0)
    assert lookups.known(GROUP_G, GROUP_H) == [1, 2]


def test_a_group_and_a_transaction_of_one_name_have_coordinators_of_their_own() -> None:
    lookups = Lookups()
    assert lookups.find(1.0, node_id=1, to=GROUP_G) == 1
    assert lookups.find(1.0, node_id=2, to=TRANSACTION_G) == 2
    lookups.coordinators.forget_node(1)
    assert lookups.known(GROUP_G, TRANSACTION_G) == [None, 2]
    assert [
        (
            type(event),
            event.kind,
            event.key,
            *([event.node, event.error] if isinstance(event, LookupEnded) else []),
        )
        for event in lookups.events
        if isinstance(event, LookupStarted | LookupEnded)
    ] == [
        (LookupStarted, "group", "g"),
        (LookupEnded, "group", "g", 1, None),
        (LookupStarted, "transaction", "g"),
        (LookupEnded, "transaction", "g", 2, None),
    ]


def test_a_refusal_ends_the_requests_of_its_key_and_a_retriable_error_none() -> None:
    lookups = Lookups()
    lookups.find(1.0, error_code=CoordinatorNotAvailable.code, to=GROUP_H)
    assert lookups.refusals == []
    assert isinstance(lookups.coordinators.why_unknown(GROUP_H), CoordinatorNotAvailable)
    lookups.find(1.0, error_code=GroupAuthorizationFailed.code, to=GROUP_G)
    ((to, error),) = lookups.refusals
    assert to == GROUP_G
    assert isinstance(error, GroupAuthorizationFailed)
    (_, ended) = (event for event in lookups.events if isinstance(event, LookupEnded))
    assert (ended.node, ended.error) == (None, str(error))
    assert lookups.coordinators.why_unknown(ToCoordinator(GROUP, "never requested")) is None


def test_concurrent_lookups_at_old_brokers_fall_back_to_one_key_each() -> None:
    lookups = Lookups()
    for send in lookups.ask(1.0, GROUP_G, TRANSACTION_G):
        assert send.max_version is None
        send.on_failure(UnsupportedVersion(), 1.0)
    singles = lookups.coordinators.poll(1.0).sends
    assert [(one.request.key_type, one.request.key) for one in singles] == [(GROUP, "g"), (TRANSACTION, "g")]
    assert {one.max_version for one in singles} == {LAST_VERSION_WITH_ONE_KEY}, "whichever broker it reaches"
    singles[0].on_response(FindCoordinatorResponse(node_id=2, host="b", port=9092), 1.0)
    singles[1].on_failure(UnsupportedVersion(), 1.0)
    assert lookups.known(GROUP_G, TRANSACTION_G) == [2, None]
    assert [to for to, _ in lookups.refusals] == [TRANSACTION_G]
