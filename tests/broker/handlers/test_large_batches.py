"""Batches of a million records: how long they hold up others, and what a refusal of them costs."""

from __future__ import annotations

import itertools
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka2.broker.handlers.services import Services
from pykafka2.broker.log.record_validation import (
    MAX_RECORD_ERRORS,
    SLICE,
    BatchRules,
    OpenValidations,
    RecordValidation,
)
from pykafka2.broker.log.validation import single_batch, start_validation, validate
from pykafka2.compression import codec
from pykafka2.errors import InvalidRecord
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.records.encoder import encode_record
from pykafka2.records.varint import varint
from pykafka2.testing.cluster import KafkaCluster
from tests.broker.support.batches import NOW_MS
from tests.broker.support.data_requests import (
    error_codes,
    fetch,
    list_offsets,
    partition_of,
    produce_all,
    produce_request,
)
from tests.broker.support.forged_batches import forged
from tests.broker.support.produce_cases import Case, ask, create_topics
from tests.broker.support.raw_client import RawClient
from tests.gate import rest_in_long

COUNT = 200_000
SMALLEST_RECORD = encode_record(0, 0, None, None, [])
COMPACTED = {"cleanup.policy": "compact"}
TOPICS = {"plain": {}, "other": {}, "compacted": COMPACTED, "another": COMPACTED}


def large_batch(body: bytes, count: int, compression: str = "zstd", span_ms: int = 0) -> bytes:
    times = {"base_timestamp": NOW_MS, "max_timestamp": NOW_MS + span_ms}
    return forged(NOW_MS, body, codec(compression).id, count=count, last_offset_delta=count - 1, **times)


RULES = BatchRules(1 << 20, 1 << 30, False, None, None, True, 1 << 62, 3_600_000)


def validation_of(records: bytes) -> RecordValidation:
    validation = start_validation(single_batch(records, 12), RULES, NOW_MS, strict=False)
    assert validation is not None
    return validation


@pytest.fixture(scope="module")
def valid() -> bytes:
    body = b"".join(encode_record(0, delta, b"k", None, []) for delta in range(COUNT))
    return large_batch(body, COUNT)


@pytest.fixture(params=["headers", pytest.param("strict", marks=pytest.mark.gate)])
def cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    config = {"log.validate": request.param, "auto.create.topics.enable": False}
    with KafkaCluster(brokers=1, config=config) as cluster, RawClient(cluster.bootstrap_servers) as wire:
        create_topics(wire, topics=TOPICS)
        yield cluster


in_any_mode = pytest.mark.parametrize("cluster", rest_in_long(["headers", "strict"]), indirect=True)
"""For what does not depend on `log.validate`."""


@pytest.fixture
def wire(cluster: KafkaCluster) -> Iterator[RawClient]:
    """A connection that waits long for a response."""
    with RawClient(cluster.bootstrap_servers) as wire:
        wire.socket.settimeout(60)
        yield wire


@pytest.fixture
def resumed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The work that handlers continue later."""
    resume_later, slices = Services.resume_later, list[Any]()

    def resume_and_note(self: Services, context: Any, work: Any) -> None:
        slices.append(work)
        resume_later(self, context, work)

    monkeypatch.setattr(Services, "resume_later", resume_and_note)
    return slices


@pytest.mark.gate
def test_refused_batch_names_a_bounded_number_of_records(wire: RawClient) -> None:
    count = 100_000
    forged = large_batch(SMALLEST_RECORD * count, count)
    assert len(forged) < 1_000
    response = ask(wire, Case("forged", "compacted", forged))
    assert response.error_code == 87
    assert [one.batch_index for one in response.record_errors] == list(range(MAX_RECORD_ERRORS))
    assert f"{count} of {count} records" in (response.error_message or "")


@pytest.mark.gate
@in_any_mode
def test_requests_of_other_connections_are_handled_between_slices(
    cluster: KafkaCluster, wire: RawClient, valid: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch's last slice waits in the queue until another connection got its responses."""
    advance, begun, answered = RecordValidation.advance, threading.Event(), threading.Event()
    slices: list[int] = []
    holds = itertools.count()

    def advance_and_note(self: RecordValidation, limit: int) -> bool:
        begun.set()
        slices.append(limit)
        is_last = len(slices) * limit >= COUNT
        if is_last and not answered.is_set() and next(holds) < 1_000_000:
            slices.pop()
            return False  # comes again behind what the queue holds
        return advance(self, limit)

    monkeypatch.setattr(RecordValidation, "advance", advance_and_note)
    responses = []
    with RawClient(cluster.bootstrap_servers) as other:
        sent = threading.Thread(target=lambda: responses.append(ask(wire, Case("x", "compacted", valid))))
        sent.start()
        assert begun.wait(60)
        for _ in range(3):
            other.call(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
        answered.set()
        sent.join()
    assert [one.error_code for one in responses] == [0]
    assert len(slices) >= COUNT // 10_000


@pytest.mark.gate
def test_two_large_batches_of_one_request_are_appended_in_full(wire: RawClient, valid: bytes) -> None:
    response = wire.call(produce_all({("compacted", 0): valid, ("other", 0): valid}), 12)
    ends = [fetch(wire, topic, 0, 0, max_bytes=1).high_watermark for topic in ("compacted", "other")]
    assert (error_codes(response), ends) == ([0, 0], [COUNT, COUNT])


@pytest.mark.gate
def test_each_large_batch_behind_a_small_one_is_checked_before_any_is_appended(
    wire: RawClient, valid: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish, left = RecordValidation.finish, []

    def finish_and_note(self: RecordValidation) -> int:
        checked = self._next
        largest = finish(self)
        left.append(self._next - checked)
        return largest

    monkeypatch.setattr(RecordValidation, "finish", finish_and_note)
    small = large_batch(encode_record(0, 0, b"k", b"v", []), 1)
    batches = {("other", 0): small, ("compacted", 0): valid, ("another", 0): valid}
    assert error_codes(wire.call(produce_all(batches), 12)) == [0, 0, 0]
    assert left == [0, 0, 0]


def record_of_headers(count: int) -> bytes:
    fields = b"\0\0\0\1\1" + varint(count) + b"\0\1" * count
    return varint(len(fields)) + fields


@pytest.mark.gate
def test_headers_of_a_small_batch_are_checked_without_objects() -> None:
    """A header takes two bytes decompressed and seventy as an object.

    With snappy, as some zstd libraries have buffers of several times a small output.
    """
    body = record_of_headers(200_000)
    tracemalloc.start()
    try:
        largest = validation_of(large_batch(body, 1, "snappy")).finish()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert largest == NOW_MS
    assert peak < 3 * len(body)


@pytest.mark.gate
@pytest.mark.parametrize(
    ("compression", "make_body", "count"),
    # Made by the test, as they take 25 MB.
    [
        ("zstd", lambda: record_of_headers(500_000), 1),
        ("zstd", lambda: record_of_headers(60_000) * 8, 8),
        ("gzip", lambda: bytes(24 << 20), 1),
    ],
    ids=["one record", "several records", "no records"],
)
def test_small_batch_that_holds_much_is_checked_in_slices(
    compression: str, make_body: Callable[[], bytes], count: int
) -> None:
    validation, slices = validation_of(large_batch(make_body(), count, compression)), 1
    while not validation.advance(SLICE):
        slices += 1
    assert slices > 5


@pytest.mark.parametrize("make_body", [lambda: b"\x7f" * (4 << 20), lambda: record_of_headers(1 << 21)[:-1]])
def test_refusal_keeps_no_decompressed_bytes(make_body: Callable[[], bytes]) -> None:
    """A request can have a batch like this for each of a thousand partitions."""
    body = make_body()
    records = large_batch(body, 1)
    refusals: list[InvalidRecord] = []
    tracemalloc.start()
    try:
        for _ in range(4):
            with pytest.raises(InvalidRecord) as caught:
                validate(single_batch(records, 12), RULES, NOW_MS, strict=False)
            refusals.append(caught.value)
            del caught
        size_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(refusals) == 4
    assert size_bytes < len(body)


@pytest.mark.gate
def test_compressed_batch_of_one_record_is_checked_in_slices(
    wire: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    advance, slices = RecordValidation.advance, []

    def advance_and_note(self: RecordValidation, limit: int) -> bool:
        slices.append(limit)
        return advance(self, limit)

    monkeypatch.setattr(RecordValidation, "advance", advance_and_note)
    monkeypatch.setattr(RecordValidation, "finish", lambda self: NOW_MS if self.advance(SLICE) else -1)
    response = ask(wire, Case("x", "plain", large_batch(record_of_headers(500_000), 1)))
    assert response.error_code == 0
    assert len(slices) > 10


def test_many_small_batches_of_one_request_are_checked_in_slices(
    wire: RawClient, monkeypatch: pytest.MonkeyPatch, resumed: list[Any]
) -> None:
    """A request of 10 MB can have a thousand partitions with two thousand records each."""
    monkeypatch.setattr("pykafka2.broker.handlers.produce.MAX_UNSLICED_RECORDS", 3_000)
    records = large_batch(
        b"".join(encode_record(0, delta, b"k", None, []) for delta in range(SLICE)), SLICE, "none"
    )
    response = wire.call(produce_all({("compacted", 0): records, ("other", 0): records}), 12)
    assert error_codes(response) == [0, 0]
    assert resumed


@pytest.mark.gate
def test_validations_together_decompress_no_more_than_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykafka2.broker.log.record_validation.MOST_OPEN_BYTES", 2 << 20)
    record = record_of_headers(400_000)
    open_validations = OpenValidations()
    validations = [validation_of(large_batch(record, 1)) for _ in range(8)]
    most = 0
    unfinished = [*validations]
    while unfinished:
        unfinished = [validation for validation in unfinished if not open_validations.advance(validation)]
        most = max(most, sum(validation.open_bytes for validation in validations))
    assert most < 5 * len(record)
    assert [validation.finish() for validation in validations] == [NOW_MS] * 8


@pytest.mark.gate
@in_any_mode
def test_requests_behind_a_large_batch_keep_their_order(wire: RawClient, valid: bytes) -> None:
    small = large_batch(encode_record(0, 0, b"k", b"v", []), 1)
    for records in (valid, small):
        wire.send(produce_request("compacted", 0, records), 12)
    offsets = [partition_of(wire.receive(ProduceRequest, 12)[1]).base_offset for _ in range(2)]
    assert offsets == [0, COUNT]


@pytest.mark.gate
@in_any_mode
def test_timestamp_lookup_in_a_large_batch_runs_in_slices(wire: RawClient, resumed: list[Any]) -> None:
    """A look-up in a batch of a million records takes a second, for which others must not wait."""
    body = b"".join(encode_record(delta, delta, b"k", None, []) for delta in range(COUNT))
    assert ask(wire, Case("x", "plain", large_batch(body, COUNT, span_ms=COUNT - 1))).error_code == 0
    resumed.clear()
    response = list_offsets(wire, ("plain", 0), timestamp=NOW_MS + COUNT - 1)
    assert (response.error_code, response.offset, response.timestamp) == (0, COUNT - 1, NOW_MS + COUNT - 1)
    assert len(resumed) > 50


@pytest.mark.gate
@in_any_mode
def test_lost_connection_or_failing_check_does_not_block_the_next_large_batch(
    cluster: KafkaCluster, wire: RawClient, valid: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    advance, begun = RecordValidation.advance, threading.Event()

    def advance_or_fail(self: RecordValidation, limit: int) -> bool:
        if self._next > COUNT // 2 and not begun.is_set():
            begun.set()
            raise RuntimeError("a bug of the broker")
        return advance(self, limit)

    monkeypatch.setattr(RecordValidation, "advance", advance_or_fail)
    request = produce_request("compacted", 0, valid)
    with RawClient(cluster.bootstrap_servers) as leaving, RawClient(cluster.bootstrap_servers) as other:
        leaving.send(request, 12)
        other.send(request, 12)
        leaving.close()
        assert begun.wait(60)
        assert ask(wire, Case("next", "compacted", valid)).error_code == 0
    assert len(cluster.problems.take()) == 1
