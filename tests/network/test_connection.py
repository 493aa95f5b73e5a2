"""The connection, driven by hand: handshake, order of answers, timeouts, ends."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.clock import FOREVER
from pykafka2.errors import (
    CorruptData,
    CorruptResponse,
    Disconnected,
    IllegalState,
    IllegalTransition,
    KafkaError,
    NotCoordinator,
    RequestTimeout,
    SaslAuthenticationFailed,
    SerializationError,
    TlsError,
    UnsupportedVersion,
)
from pykafka2.events import RequestAnswered, RequestSent, StateMoved
from pykafka2.network.api_versions import ApiVersions
from pykafka2.network.connection import (
    HANDSHAKE_MAX_FRAME_BYTES,
    LEGAL_MOVES,
    Connection,
    ConnectionState,
    HandlerFailed,
)
from pykafka2.network.handshake import LAST_VERSION_WITHOUT_EXPECTATION
from pykafka2.network.in_flight import MAX_CORRELATION_ID
from pykafka2.network.script import Script, call
from pykafka2.protocol.framing import encode_response
from pykafka2.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.protocol.messages.group import HeartbeatRequest, HeartbeatResponse
from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.network.wire import Asker, Wire, api_versions_response

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
# Where any bytes may come, a length may, too: so much memory is made ready for the answer.
MAX_FRAME_BYTES = 1 << 20


def ask(wire: Wire, now: float, **keywords: Any) -> Asker:
    asker = Asker()
    wire.connection.send(
        HEARTBEAT,
        now,
        on_response=asker.on_response,
        on_failure=asker.on_failure,
        on_sent=asker.on_sent,
        **keywords,
    )
    return asker


# ---------------------------------------------------------------------- handshake


def test_the_handshake_comes_first_and_makes_the_connection_ready(wire: Wire) -> None:
    assert wire.pipe.unread == b""
    wire.connection.on_open(1.0)
    ((header, request),) = wire.requests()
    assert isinstance(request, ApiVersionsRequest)
    assert header.request_api_version == LAST_VERSION_WITHOUT_EXPECTATION
    assert (header.client_id, request.client_software_name) == ("tester", "pykafka2")
    assert wire.connection.state is ConnectionState.HANDSHAKING
    wire.answer(header, api_versions_response(), 1.5)
    assert wire.connection.is_ready
    assert wire.owner.ready_at == [1.5]


def test_a_request_before_the_handshake_is_done_fails_at_once(wire: Wire) -> None:
    asker = ask(wire, 0.5)
    assert [type(error) for error in asker.failures] == [Disconnected]
    with pytest.raises(IllegalState):
        wire.connection.version_for(HeartbeatRequest)


def test_a_large_answer_to_the_handshake_is_refused_and_a_later_one_is_read(wire: Wire) -> None:
    """The process at the port may be no broker at all: no memory is reserved for the announced size."""
    wire.connection.on_open(1.0)
    wire.requests()
    wire.receive(struct.pack(">i", HANDSHAKE_MAX_FRAME_BYTES + 1), 1.5)
    (error,) = wire.owner.closed
    assert "announces a frame of 524289 bytes; at most 524288" in str(error)
    broker = Wire()
    broker.shake_hands()
    broker.receive(struct.pack(">i", HANDSHAKE_MAX_FRAME_BYTES + 1), 1.5)
    assert broker.connection.is_ready


@pytest.mark.parametrize(
    ("offered", "expected"), [([], 0), ([ApiVersion(api_key=18, min_version=0, max_version=3)], 3)]
)
def test_unsupported_api_versions_request_is_retried_with_an_offered_version(
    wire: Wire, offered: list[ApiVersion], expected: int
) -> None:
    wire.connection.on_open(1.0)
    ((header, _),) = wire.requests()
    wire.answer(header, ApiVersionsResponse(error_code=35, api_keys=offered), 1.1, version=0)
    ((header, _),) = wire.requests()
    assert header.request_api_version == expected
    wire.answer(header, api_versions_response({12: (0, 2)}), 1.2)
    assert wire.connection.is_ready
    assert wire.connection.version_for(HeartbeatRequest) == 2


def test_second_unsupported_version_closes_the_connection_with_the_error(wire: Wire) -> None:
    wire.connection.on_open(1.0)
    for _ in range(2):
        ((header, _),) = wire.requests()
        wire.answer(header, ApiVersionsResponse(error_code=35, api_keys=[]), 1.1, version=0)
    assert [type(error) for error in wire.owner.closed] == [UnsupportedVersion]
    assert "node 1" in str(wire.owner.closed[0])
    assert wire.pipe.is_closed


@pytest.mark.parametrize("open_first", [False, True])
def test_a_handshake_that_is_not_done_in_time_ends_the_connection(wire: Wire, open_first: bool) -> None:
    if open_first:
        wire.connection.on_open(1.0)
    assert wire.connection.next_deadline() == 10.0
    wire.connection.poll(9.9)
    assert not wire.owner.closed
    wire.connection.poll(10.0)
    assert [type(error) for error in wire.owner.closed] == [Disconnected]
    assert ("finish the handshake" if open_first else "accept the connection") in str(wire.owner.closed[0])
    assert wire.pipe.is_closed
    assert wire.connection.next_deadline() == FOREVER


def test_tls_on_the_other_side_is_named(wire: Wire) -> None:
    wire.connection.on_open(1.0)
    wire.receive(b"\x15\x03\x03\x00\x02\x02\x16", 1.1)
    (error,) = wire.owner.closed
    assert "security_protocol=SSL" in str(error)


def test_disconnect_during_the_handshake_is_named_in_the_error(wire: Wire) -> None:
    wire.connection.on_open(1.0)
    wire.connection.on_close(Disconnected("node 1 closed the connection"), 1.1)
    (error,) = wire.owner.closed
    assert isinstance(error, Disconnected)
    assert "during the handshake" in str(error)


def failing_handshake(error: Exception) -> Script[ApiVersions]:
    yield from call(ApiVersionsRequest())
    raise error


@pytest.mark.parametrize("error", [SaslAuthenticationFailed("no"), ValueError("a bug")])
def test_a_handshake_that_raises_ends_the_connection_with_the_error(
    make_wire: Callable[..., Wire], error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    wire = make_wire(shake_hands=failing_handshake(error))
    wire.connection.on_open(1.0)
    ((header, _),) = wire.requests()
    wire.answer(header, api_versions_response(), 1.1)
    (reported,) = wire.owner.closed
    assert error in (reported, reported.__cause__)
    assert reported is error or str(reported).endswith("failed: ValueError")
    assert wire.pipe.is_closed


# ---------------------------------------------------------------------- requests and answers


def test_answers_reach_their_askers_in_order(wire: Wire) -> None:
    wire.shake_hands()
    askers = [ask(wire, 2.0) for _ in range(5)]
    requests = wire.requests()
    ids = [header.correlation_id for header, _ in requests]
    assert ids == list(range(ids[0], ids[0] + 5))
    assert wire.connection.in_flight == 5
    together = b"".join(
        b"".join(encode_response(HeartbeatResponse(error_code=n), 4, header.correlation_id))
        for n, (header, _) in enumerate(requests)
    )
    wire.receive(together[:30], 3.0)
    wire.receive(together[30:], 3.0)
    assert [asker.responses[0].error_code for asker in askers] == list(range(5))
    assert wire.connection.in_flight == 0
    assert wire.connection.next_deadline() == FOREVER
    assert wire.connection.last_used == 3.0


def test_correlation_ids_start_again_at_0_after_the_largest(wire: Wire) -> None:
    wire.shake_hands()
    wire.connection._next_id = MAX_CORRELATION_ID
    askers = [ask(wire, 2.0) for _ in range(2)]
    requests = wire.requests()
    assert [header.correlation_id for header, _ in requests] == [MAX_CORRELATION_ID, 0]
    for header, _ in requests:
        wire.answer(header, HeartbeatResponse(), 3.0)
    assert [len(asker.responses) for asker in askers] == [1, 1]


def test_an_answer_out_of_order_is_corrupt_and_ends_the_connection(wire: Wire) -> None:
    wire.shake_hands()
    first, second = ask(wire, 2.0), ask(wire, 2.0)
    _, (header, _) = wire.requests()
    wire.answer(header, HeartbeatResponse(), 3.0)
    assert isinstance(first.failures[0], CorruptData)
    assert "correlation id" in str(first.failures[0])
    # The second one did nothing wrong: it may be sent again.
    assert type(second.failures[0]) is Disconnected
    assert [type(error) for error in wire.owner.closed] == [CorruptResponse]
    assert wire.pipe.is_closed


def test_unexpected_response_closes_the_connection(wire: Wire) -> None:
    wire.shake_hands()
    wire.receive(b"\0\0\0\4\0\0\0\7", 2.0)
    assert [type(error) for error in wire.owner.closed] == [CorruptResponse]


def test_an_answer_that_cannot_be_decoded_fails_its_request_and_ends_the_connection(wire: Wire) -> None:
    wire.shake_hands()
    asker = ask(wire, 2.0)
    ((header, _),) = wire.requests()
    wire.receive(struct.pack(">ii", 6, header.correlation_id) + b"\0\0", 3.0)
    assert "node 1" in str(asker.failures[0])
    assert "Heartbeat" in str(asker.failures[0])
    assert [type(error) for error in wire.owner.closed] == [CorruptResponse]


@pytest.mark.parametrize("raised", [NotCoordinator(), ValueError("a bug")])
def test_exception_of_a_handler_is_reported_once_and_reaches_the_loop(wire: Wire, raised: Exception) -> None:
    wire.shake_hands()
    failures: list[KafkaError] = []

    def on_response(response: Any, now: float) -> None:
        raise raised

    wire.connection.send(
        HEARTBEAT, 2.0, on_response=on_response, on_failure=lambda error, now: failures.append(error)
    )
    ((header, _),) = wire.requests()
    with pytest.raises(HandlerFailed, match=r"handling the HeartbeatResponse of node 1") as caught:
        wire.answer(header, HeartbeatResponse(), 3.0)
    assert caught.value.__cause__ is raised
    assert failures == [], "exactly one of on_response and on_failure is called"


def test_handler_that_raises_does_not_keep_others_from_failing(wire: Wire) -> None:
    wire.shake_hands()

    def on_failure(error: KafkaError, now: float) -> None:
        raise ValueError("a bug")

    wire.connection.send(HEARTBEAT, 2.0, on_response=lambda response, now: None, on_failure=on_failure)
    other = ask(wire, 2.0)
    with pytest.raises(ValueError, match="a bug"):
        wire.connection.close(3.0)
    assert [type(error) for error in other.failures] == [Disconnected]


def test_a_request_without_an_answer_is_answered_when_it_is_written(wire: Wire) -> None:
    wire.shake_hands()
    asker = ask(wire, 2.0, expects_response=False)
    assert (asker.responses, wire.connection.in_flight) == ([], 0)
    assert wire.connection.on_written(2.5)
    assert not wire.connection.on_written(2.6)
    assert (asker.responses, asker.sent_at) == ([None], [2.5])


def test_a_request_without_an_answer_fails_if_the_connection_ends_before_it_is_written(wire: Wire) -> None:
    wire.shake_hands()
    asker = ask(wire, 2.0, expects_response=False)
    wire.connection.on_close(Disconnected("gone"), 2.1)
    assert (asker.responses, len(asker.failures), asker.sent_at) == ([], 1, [])


def test_a_request_without_an_answer_that_cannot_be_written_in_time_ends_the_connection(wire: Wire) -> None:
    wire.shake_hands()
    asker = ask(wire, 2.0, expects_response=False)
    assert wire.connection.next_deadline() == 32.0
    wire.connection.poll(31.9)
    assert not wire.owner.closed
    wire.connection.poll(32.0)
    assert (asker.responses, len(asker.failures)) == ([], 1)
    assert [type(error) for error in wire.owner.closed] == [RequestTimeout]
    assert wire.pipe.is_closed


def test_a_request_without_an_answer_is_waited_for_no_longer_once_it_is_written(wire: Wire) -> None:
    wire.shake_hands()
    ask(wire, 2.0, expects_response=False)
    wire.connection.on_written(2.5)
    assert wire.connection.next_deadline() == FOREVER


def test_a_field_that_the_broker_cannot_read_is_refused_with_its_name(wire: Wire) -> None:
    wire.shake_hands({FindCoordinatorRequest.API_KEY: (0, 0)})
    asker = Asker()
    request = FindCoordinatorRequest(key="t", key_type=1)
    wire.connection.send(request, 2.0, on_response=asker.on_response, on_failure=asker.on_failure)
    assert [type(error) for error in asker.failures] == [UnsupportedVersion]
    for word in ("node 1", "FindCoordinator", "key_type"):
        assert word in str(asker.failures[0])
    assert wire.requests() == []
    assert wire.connection.is_ready


def test_a_value_that_does_not_fit_its_field_fails_its_request_alone(wire: Wire) -> None:
    wire.shake_hands()
    asker = Asker()
    request = HeartbeatRequest(group_id="g", generation_id=1 << 40, member_id="m")
    wire.connection.send(request, 2.0, on_response=asker.on_response, on_failure=asker.on_failure)
    assert [type(error) for error in asker.failures] == [SerializationError]
    assert ask(wire, 2.0).failures == []
    assert len(wire.requests()) == 1


def test_versions_follow_the_broker_and_the_askers_limits(wire: Wire) -> None:
    wire.shake_hands({3: (0, 9)})
    asker = Asker()
    for limits, expected in (({}, 9), ({"max_version": 4}, 4)):
        wire.connection.send(
            MetadataRequest(topics=None),
            2.0,
            on_response=asker.on_response,
            on_failure=asker.on_failure,
            **limits,  # type: ignore[arg-type]
        )
        ((header, _),) = wire.requests()
        assert header.request_api_version == expected
        wire.answer(header, MetadataResponse(brokers=[], topics=[]), 3.0)
    assert len(asker.responses) == 2


def test_throttling_is_noted(wire: Wire) -> None:
    wire.shake_hands()
    ask(wire, 2.0)
    ((header, _),) = wire.requests()
    wire.answer(header, HeartbeatResponse(throttle_time_ms=1500), 3.0)
    assert wire.connection.is_throttled(4.4)
    assert not wire.connection.is_throttled(4.5)


def test_a_shorter_throttle_does_not_end_a_longer_one(wire: Wire) -> None:
    """Answers to requests that were on their way already name shorter and shorter times."""
    wire.shake_hands()
    for _ in range(2):
        ask(wire, 2.0)
    (first, _), (second, _) = wire.requests()
    wire.answer(first, HeartbeatResponse(throttle_time_ms=5000), 3.0)
    wire.answer(second, HeartbeatResponse(throttle_time_ms=100), 3.1)
    assert wire.connection.is_throttled(7.9)
    assert not wire.connection.is_throttled(8.0)


# ---------------------------------------------------------------------- ends


def test_the_oldest_unanswered_request_times_out_and_ends_the_connection(wire: Wire) -> None:
    wire.shake_hands()
    first = ask(wire, 2.0)
    second = ask(wire, 3.0)
    patient = ask(wire, 3.0, timeout=300.0)
    assert wire.connection.next_deadline() == 32.0
    wire.connection.poll(31.9)
    assert not wire.owner.closed
    wire.connection.poll(32.0)
    assert [type(error) for error in first.failures] == [RequestTimeout]
    assert "Heartbeat within 30 s" in str(first.failures[0])
    assert [type(error) for error in second.failures + patient.failures] == [Disconnected, Disconnected]
    assert [type(error) for error in wire.owner.closed] == [RequestTimeout]
    assert wire.pipe.is_closed


def test_a_request_may_have_a_shorter_timeout_than_one_before_it(wire: Wire) -> None:
    wire.shake_hands()
    ask(wire, 2.0)
    hasty = ask(wire, 2.0, timeout=1.0)
    assert wire.connection.next_deadline() == 3.0
    wire.connection.poll(3.0)
    assert [type(error) for error in hasty.failures] == [RequestTimeout]


def test_closed_channel_fails_all_waiting_requests_once_and_notifies_the_owner(wire: Wire) -> None:
    wire.shake_hands()
    askers = [ask(wire, 2.0) for _ in range(3)]
    wire.connection.on_close(Disconnected("reset"), 3.0)
    wire.connection.on_close(Disconnected("again"), 3.0)
    wire.connection.close(3.0)
    assert [len(asker.failures) for asker in askers] == [1, 1, 1]
    assert [str(error) for error in wire.owner.closed] == ["reset"]
    assert len(ask(wire, 4.0).failures) == 1


def test_disconnect_in_the_middle_of_a_response_is_named_in_the_error(wire: Wire) -> None:
    wire.shake_hands()
    asker = ask(wire, 2.0)
    wire.receive(b"\0\0\0\x20half", 2.5)
    wire.connection.on_close(Disconnected("node 1 closed the connection"), 3.0)
    assert str(asker.failures[0]) == "node 1 closed the connection in the middle of a response"


@given(data=st.binary(max_size=200), cut=st.integers(1, 200))
def test_any_bytes_are_an_answer_or_the_end_of_the_connection(data: bytes, cut: int) -> None:
    wire = Wire(MAX_FRAME_BYTES)
    wire.shake_hands()
    askers = [ask(wire, 2.0), ask(wire, 2.0)]
    wire.receive(data[:cut], 3.0)
    wire.receive(data[cut:], 3.0)
    ended = [len(asker.responses) + len(asker.failures) for asker in askers]
    if wire.owner.closed:
        assert ended == [1, 1]
        assert isinstance(wire.owner.closed[0], CorruptData | TlsError)
    else:
        assert wire.connection.in_flight == 2 - sum(ended)


@given(position=st.integers(0, 12), value=st.integers(0, 255))
def test_a_changed_byte_in_an_answer_never_reaches_the_wrong_asker(position: int, value: int) -> None:
    wire = Wire(MAX_FRAME_BYTES)
    wire.shake_hands()
    first, second = ask(wire, 2.0), ask(wire, 2.0)
    (header, _), _ = wire.requests()
    data = bytearray(b"".join(encode_response(HeartbeatResponse(), 4, header.correlation_id)))
    data[min(position, len(data) - 1)] = value
    wire.receive(bytes(data), 3.0)
    assert len(first.responses) + len(first.failures) <= 1
    assert not second.responses


def test_close_fails_waiting_requests_without_notifying_the_owner(wire: Wire) -> None:
    wire.shake_hands()
    asker = ask(wire, 2.0)
    wire.connection.close(3.0)
    assert len(asker.failures) == 1
    assert not wire.owner.closed
    assert wire.pipe.is_closed


def test_responses_after_close_are_ignored(wire: Wire) -> None:
    wire.shake_hands()
    closing, other = Asker(), Asker()
    wire.connection.send(
        HEARTBEAT,
        2.0,
        on_response=lambda response, now: wire.connection.close(now),
        on_failure=closing.on_failure,
    )
    wire.connection.send(HEARTBEAT, 2.0, on_response=other.on_response, on_failure=other.on_failure)
    data = b"".join(
        b"".join(encode_response(HeartbeatResponse(), 4, header.correlation_id))
        for header, _ in wire.requests()
    )
    wire.receive(data, 3.0)
    assert (closing.failures, other.responses, len(other.failures)) == ([], [], 1)


# ---------------------------------------------------------------------- state table and event sink


@given(moves=st.lists(st.sampled_from(ConnectionState), max_size=6))
def test_every_move_is_in_the_table_or_refused(moves: list[ConnectionState]) -> None:
    connection: Connection = Wire().connection
    for target in moves:
        before = connection.state
        if target in LEGAL_MOVES[before]:
            connection._move_to(target, 1.0)
            assert connection.state is target
        else:
            with pytest.raises(IllegalTransition):
                connection._move_to(target, 1.0)
            assert connection.state is before


def test_events_report_requests_responses_and_state_changes(wire: Wire) -> None:
    wire.shake_hands()
    ask(wire, 2.0)
    ((header, _),) = wire.requests()
    wire.answer(header, HeartbeatResponse(), 2.25)
    wire.connection.close(3.0)
    moves = [event.after for event in wire.events if isinstance(event, StateMoved)]
    assert moves == ["handshaking", "ready", "closed"]
    sent = [event for event in wire.events if isinstance(event, RequestSent)]
    assert [event.api for event in sent] == ["ApiVersions", "Heartbeat"]
    assert (sent[1].node, sent[1].version, sent[1].correlation_id) == ("node 1", 4, header.correlation_id)
    answered = [event for event in wire.events if isinstance(event, RequestAnswered)]
    assert [(event.api, event.latency, event.error) for event in answered] == [
        ("ApiVersions", 0.0, None),
        ("Heartbeat", 0.25, None),
    ]
