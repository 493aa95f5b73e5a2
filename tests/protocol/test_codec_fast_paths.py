"""Fast paths of codecs: empty last fields are checked at once, lists of one element are packed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from pykafka2.errors import CorruptData, SerializationError
from pykafka2.protocol import single
from pykafka2.protocol.declared import title_of
from pykafka2.protocol.decoding import write_decoder
from pykafka2.protocol.encoding import write_encoder
from pykafka2.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

FIRST_WITH_RECORD_ERRORS = 8
FIRST_WITH_LEADERS = 10

ERRORS = ([], [BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message=None)])
MESSAGES = (None, "", "too late")
LEADERS = (LeaderIdAndEpoch(), LeaderIdAndEpoch(leader_id=2, leader_epoch=3))


def an_answer(version: int, *partitions: PartitionProduceResponse) -> ProduceResponse:
    name, topic_id = ("orders", bytes(16)) if version < 13 else ("", b"\1" * 16)
    topic = TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=[*partitions])
    return ProduceResponse(responses=[topic], throttle_time_ms=3)


@pytest.mark.parametrize("version", range(FIRST_WITH_RECORD_ERRORS, 14))
def test_empty_and_nonempty_optional_fields_are_decoded_alike(version: int) -> None:
    leaders = LEADERS if version >= FIRST_WITH_LEADERS else LEADERS[:1]
    partitions = [
        PartitionProduceResponse(
            index=7, base_offset=5, record_errors=errors, error_message=message, current_leader=leader
        )
        for errors, message, leader in product(ERRORS, MESSAGES, leaders)
    ]
    for partition in partitions:
        answer = an_answer(version, partition)
        assert ProduceResponse.decode(answer.encode(version), version) == answer
    answer = an_answer(version, *partitions)
    assert ProduceResponse.decode(answer.encode(version), version) == answer


@pytest.mark.parametrize("version", range(FIRST_WITH_RECORD_ERRORS, 14))
def test_truncated_response_is_rejected(version: int) -> None:
    encoded = an_answer(version, PartitionProduceResponse(index=7, base_offset=5)).encode(version)
    for length in range(len(encoded)):
        with pytest.raises(CorruptData):
            ProduceResponse.decode(encoded[:length], version)


def long_way(monkeypatch: pytest.MonkeyPatch, write: Callable[..., Any], cls: Any, what: str) -> Any:
    """The codec as it is where there is no short way."""
    with monkeypatch.context() as patched:
        patched.setattr(single, "OFTEN_SINGLE", frozenset())
        return write(cls, 13, True).compile(title_of(cls, 13, True, f"{what} the long way"))


def a_request(*partitions: PartitionProduceData, **fields: Any) -> ProduceRequest:
    topic = TopicProduceData(topic_id=b"\7" * 16, partition_data=[*partitions])
    return ProduceRequest(**{"acks": -1, "timeout_ms": 30_000, "topic_data": [topic], **fields})


def some_data(index: int = 3, records: Any = b"v" * 300) -> PartitionProduceData:
    return PartitionProduceData(index=index, records=records)


@pytest.mark.parametrize(
    "request_",
    [
        a_request(some_data()),
        a_request(some_data(records=b"")),
        a_request(some_data(records=b"v" * 20_000)),
        a_request(some_data(records=None)),
        a_request(some_data(records=memoryview(b"view"))),
        a_request(some_data(), some_data(4)),
        a_request(),
        a_request(some_data(), transactional_id="payments"),
        a_request(topic_data=[]),
        a_request(topic_data=a_request(some_data()).topic_data * 2),
    ],
    ids=range(10),
)
def test_a_request_is_the_same_by_the_short_way(
    monkeypatch: pytest.MonkeyPatch, request_: ProduceRequest
) -> None:
    parts: list[bytes] = []
    long_way(monkeypatch, write_encoder, ProduceRequest, "encode")(request_, parts.append)
    assert request_.encode(13) == b"".join(parts)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (a_request(some_data(index=1 << 31)), "index"),
        (a_request(some_data(records="text")), "records"),
        (a_request(topic_data=None), "topic_data"),
        (a_request(some_data(), acks=1 << 15), "acks"),
    ],
    ids=["index", "records", "topic_data", "acks"],
)
def test_wrong_value_is_named_by_the_fast_encoder(wrong: ProduceRequest, field: str) -> None:
    with pytest.raises(SerializationError, match=field):
        wrong.encode(13)


def test_an_answer_is_the_same_by_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = long_way(monkeypatch, write_decoder, ProduceResponse, "decode")
    partition = PartitionProduceResponse(index=7, error_code=3, base_offset=5, log_append_time_ms=6)
    answers = [an_answer(13, partition), an_answer(13, partition, partition), an_answer(13)]
    answers += [an_answer(13, PartitionProduceResponse(index=7, base_offset=-1, error_message="late"))]
    encoded = answers[0].encode(13)
    # Each byte another one: whatever it was, both ways read the same of it, or refuse it.
    all_encoded = [answer.encode(13) for answer in answers]
    all_encoded += [encoded[:at] + b"\3" + encoded[at + 1 :] for at in range(len(encoded))]
    for data in all_encoded:
        try:
            expected = decode(data, 0, len(data))
        except Exception:
            with pytest.raises(CorruptData):
                ProduceResponse.decode(data, 13)
        else:
            assert ProduceResponse.decode_from(data, 0, 13) == expected


def test_a_usual_request_and_its_answer_take_the_short_way() -> None:
    encode = single.single_encoder_of(ProduceRequest, 13, True)
    decode = single.single_decoder_of(ProduceResponse, 13, True)
    assert encode is not None
    assert decode is not None
    parts: list[bytes] = []
    assert encode(a_request(some_data()), parts.append)
    assert len(parts) == 4
    data = an_answer(13, PartitionProduceResponse(index=7, base_offset=5)).encode(13)
    assert decode(data, 0, len(data)) == ProduceResponse.decode(data, 13)
