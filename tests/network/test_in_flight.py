"""The window of requests in flight against a plain list."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.clock import FOREVER
from pykafka2.errors import CorruptData, KafkaError
from pykafka2.network.in_flight import InFlight, InFlightWindow
from pykafka2.protocol.framing import encode_response
from pykafka2.protocol.messages.group import HeartbeatRequest, HeartbeatResponse

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def ignore(result: Any | KafkaError, now: float) -> None:
    pass


def in_flight(correlation_id: int, deadline: float = 30.0) -> InFlight:
    return InFlight(HEARTBEAT, 4, correlation_id, 0.0, deadline, ignore, ignore)


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.floats(0, 100)),
            st.tuples(st.sampled_from(["popleft", "take_overdue", "take_all"]), st.floats(0, 100)),
        ),
        max_size=40,
    )
)
def test_the_window_is_a_list_in_order_of_sending(steps: list[tuple[str, float]]) -> None:
    window = InFlightWindow()
    model: list[InFlight] = []
    for what, moment in steps:
        if what == "add":
            model.append(in_flight(len(model), moment))
            window.append(model[-1])
        elif what == "popleft":
            if model:
                assert window.popleft() is model.pop(0)
        elif what == "take_overdue":
            assert window.take_overdue(moment) == [one for one in model if one.deadline <= moment]
            model = [one for one in model if one.deadline > moment]
        else:
            assert window.take_all() == model
            model = []
        assert len(window) == len(model)
        assert window.next_deadline() == min((one.deadline for one in model), default=FOREVER)
        assert window.last_deadline() == max((one.deadline for one in model), default=-FOREVER)


def test_response_is_decoded_only_with_the_expected_correlation_id() -> None:
    frame = b"".join(encode_response(HeartbeatResponse(error_code=27), 4, 7))[4:]
    assert in_flight(7).decode(frame, "node 1") == HeartbeatResponse(error_code=27)
    with pytest.raises(CorruptData, match=r"node 1 responded to correlation id 7 instead of 8 \(Heartbeat\)"):
        in_flight(8).decode(frame, "node 1")
    for length in range(len(frame)):
        with pytest.raises(CorruptData, match="node 1"):
            in_flight(7).decode(frame[:length], "node 1")
