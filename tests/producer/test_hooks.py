"""The hooks of a producer's interceptors: records, `send_many`, requests, and hooks that raise."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Sequence
from typing import Any

import pyarrow
import pytest

from pykafka2 import (
    BatchMetadata,
    BulkRecords,
    ClientInfo,
    KafkaError,
    ProducerInterceptor,
    ProducerRecord,
    RecordMetadata,
)
from pykafka2.errors import (
    IllegalArgument,
    IncompleteSend,
    NoBrokersAvailable,
    RecordTooLarge,
    SerializationError,
    TopicAuthorizationFailed,
)
from pykafka2.events import ConnectionClosed, ConnectionOpened, RequestAnswered, RequestSent
from pykafka2.testing import KafkaCluster, Simulation


@pytest.fixture
def cluster(simulation: Simulation) -> KafkaCluster:
    return simulation.cluster(2, {"orders": 2})


class Timing(ProducerInterceptor):
    """Measures each record from `send` to its acknowledgement."""

    def __init__(self, name: str = "t") -> None:
        self.name = name
        self.started: list[str | None] = []
        self.done: list[tuple[Any, int | None, str | None, Any]] = []
        """Value, partition, error, context."""

    def on_start(self, client: ClientInfo) -> None:
        self.client = client
        self.started.append(client.cluster_id)

    def on_send(self, record: ProducerRecord) -> None:
        assert record.context is None
        record.context = (self.name, self.client.monotonic())

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: KafkaError | None, record: ProducerRecord | None = None
    ) -> None:
        assert record is not None
        assert metadata is None or metadata.partition == record.partition
        failed = None if error is None else type(error).__name__
        self.done.append((record.value, record.partition, failed, record.context))


def test_each_interceptor_gets_the_record_with_its_own_context(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    class Replacing:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return ProducerRecord(record.topic, record.value.upper(), record.key)

    first, second = Timing("1"), Timing("2")
    chain = [first, Replacing(), second]
    with simulation.producer(cluster, interceptors=chain, client_id="shop") as producer:
        producer.send("orders", b"a").result(10)
        producer.send("orders", b"b", key=b"k", on_delivery=lambda *_: None).result(10)
        at = simulation.now
    assert [(value, context[0]) for value, _, _, context in first.done] == [(b"A", "1"), (b"B", "1")]
    assert [context[0] for *_, context in second.done] == ["2", "2"]
    assert all(partition in (0, 1) for _, partition, _, _ in first.done)
    assert all(0 <= context[1] <= at for *_, context in first.done)
    assert first.started == [None]
    client = first.client
    assert (client.kind, client.client_id, client.group_id) == ("producer", "shop", None)
    assert client.cluster_id is not None
    assert len(client.bootstrap_servers) == 2


def test_failed_records_have_their_context_and_partition(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    timing = Timing()
    producer = simulation.producer(cluster, interceptors=[timing], max_request_size=1000)
    with pytest.raises(RecordTooLarge):
        producer.send("orders", b"x" * 2000)
    with pytest.raises(IllegalArgument):
        producer.send("orders", 7)  # type: ignore[arg-type]
    cluster.controls.rule(api="Produce", then="error:TOPIC_AUTHORIZATION_FAILED")
    producer.send("orders", b"no", partition=1)
    producer.send("orders", b"on", key=b"k", on_delivery=lambda *_: None)
    with pytest.raises(TopicAuthorizationFailed):
        producer.flush(10)
    found = {value: (partition, error) for value, partition, error, _ in timing.done}
    assert found.pop(b"on")[0] in (0, 1)
    assert found == {
        b"x" * 2000: (None, "RecordTooLarge"),
        7: (None, "IllegalArgument"),
        b"no": (1, "TopicAuthorizationFailed"),
    }
    assert all(context[0] == "t" for *_, context in timing.done)
    producer.close()


def test_context_of_a_record_is_not_compared_copied_or_pickled() -> None:
    record = ProducerRecord("orders", b"v", headers=[("a", b"1")], partition=2)
    plain = copy.copy(record)
    record.context = object()
    assert record == plain
    assert "context" not in repr(record)
    for other in (pickle.loads(pickle.dumps(record)), copy.copy(record), copy.deepcopy(record)):
        assert other == record
        assert other.context is None


def test_no_interceptor_sees_the_context_of_another_also_in_send_many(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    seen: list[tuple[str, Any]] = []

    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

        def on_send(self, record: ProducerRecord) -> None:
            seen.append((self.name, record.context))
            record.context = self.name

        def on_acknowledgement(self, metadata: Any, error: Any, record: ProducerRecord) -> None:
            seen.append((self.name, record.context))

    with simulation.producer(cluster, interceptors=[Bulk(), Named("a"), Named("b")]) as producer:
        producer.send("orders", b"v").result(10)
        producer.send_many("orders", [b"v"]).result(10)
    assert seen == [("a", None), ("b", None), ("a", "a"), ("b", "b")] * 2


def test_headers_that_an_interceptor_appends_do_not_change_the_callers_list(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    class Tracing:
        def on_send(self, record: ProducerRecord) -> None:
            record.headers.append(("trace", b"1"))  # type: ignore[union-attr]

    own: list[tuple[str, bytes | None]] = [("a", b"")]
    with simulation.producer(cluster, interceptors=[Tracing(), Tracing()]) as producer:
        for _ in range(2):
            producer.send("orders", b"v", headers=own, partition=1)
        producer.send_many("orders", [b"v", b"v"], headers=own, partition=1)
        producer.send_many("orders", [b"v"], headers=[own], partition=1)
    assert own == [("a", b"")]
    assert rows_in(cluster, 1) == [(b"v", [("a", b""), ("trace", b"1"), ("trace", b"1")])] * 5


def test_interrupted_send_is_acknowledged_with_an_error(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    timing, interrupts = Timing(), [KeyboardInterrupt(), SystemExit()]

    def serialize(value: Any) -> bytes:
        if interrupts:
            raise interrupts.pop(0)
        return bytes(value)

    with simulation.producer(cluster, interceptors=[timing], value_serializer=serialize) as producer:
        for interrupt in (KeyboardInterrupt, SystemExit):
            with pytest.raises(interrupt):
                producer.send("orders", b"a")
        producer.send("orders", b"b")
    assert [(value, error) for value, _, error, _ in timing.done] == [
        (b"a", "KafkaError"),
        (b"a", "KafkaError"),
        (b"b", None),
    ]


class Bulk(ProducerInterceptor):
    """Adds a header to all records of a `send_many`, and keeps the results."""

    def __init__(self, *headers: Any) -> None:
        self.headers = headers or (("trace", b"1"),)
        self.calls: list[BulkRecords] = []
        self.done: list[tuple[Any, str | None, list[int]]] = []
        self.singles = 0

    def on_send(self, record: ProducerRecord) -> None:
        self.singles += 1

    def on_send_many(self, records: BulkRecords) -> None:
        records.headers.extend(self.headers)
        records.context = len(self.calls)
        self.calls.append(records)

    def on_acknowledgement_many(
        self,
        metadata: BatchMetadata | None,
        error: KafkaError | None,
        records: BulkRecords,
        rows: Sequence[int],
    ) -> None:
        assert records is self.calls[records.context]
        place = None
        if metadata is not None:
            place = metadata.partition, metadata.base_offset, metadata.last_offset, metadata.count
        self.done.append((place, None if error is None else type(error).__name__, [*rows]))


class PerRecord:
    """An old interceptor: one call for each record."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.outcomes: list[tuple[int, Any]] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.sent.append((record.value, record.key, record.headers))
        record.value = record.value + b"!"
        return record

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: KafkaError | None, record: ProducerRecord
    ) -> None:
        self.outcomes.append((-1 if metadata is None else metadata.offset, record.value))


def rows_in(cluster: KafkaCluster, partition: int) -> list[tuple[bytes | None, list[Any]]]:
    return [(record.value, [*record.headers]) for record in cluster.log("orders", partition).records()]


def arguments_of(kind: str, values: list[bytes], headers: Any) -> Any:
    if kind == "lists":
        return values, {"headers": headers}
    pa = pytest.importorskip("pyarrow")
    if headers is None or kind == "column":
        return pa.array(values), {"headers": headers}
    maps = pa.map_(pa.string(), pa.binary())
    own = headers if headers and isinstance(headers[0], list) else [headers] * len(values)
    return pa.table({"value": pa.array(values), "headers": pa.array(own, maps)}), {}


@pytest.mark.parametrize("own", [None, [("n", b"0")], [[("n", b"0")], [], [("n", b"2")]]], ids=str)
@pytest.mark.parametrize("kind", ["lists", "column", "table"])
def test_send_many_calls_bulk_hooks_once_and_adds_headers_to_all_rows(
    simulation: Simulation, cluster: KafkaCluster, kind: str, own: Any
) -> None:
    bulk, other = Bulk(), Bulk(("more", None))
    with simulation.producer(cluster, interceptors=[bulk, other]) as producer:
        values, more = arguments_of(kind, [b"a", b"b", b"c"], own)
        producer.send_many("orders", values, partition=1, **more).result(10)
        producer.send_many("orders", [b"d"], partition=1).result(10)
    per_row = own if own and isinstance(own[0], list) else [own or []] * 3
    added = [("trace", b"1"), ("more", None)]
    assert rows_in(cluster, 1) == [
        *[(value, [*row, *added]) for value, row in zip((b"a", b"b", b"c"), per_row, strict=True)],
        (b"d", added),
    ]
    assert [(records.topic, records.count) for records in bulk.calls] == [("orders", 3), ("orders", 1)]
    assert bulk.done == other.done == [((1, 0, 2, 3), None, [0, 1, 2]), ((1, 3, 3, 1), None, [0])]
    assert bulk.singles == 0


@pytest.mark.parametrize("kind", ["lists", "column", "table"])
def test_old_interceptors_see_each_record_of_send_many_after_the_headers_of_bulk_hooks(
    simulation: Simulation, cluster: KafkaCluster, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    old, bulk = PerRecord(), Bulk()
    with simulation.producer(cluster, interceptors=[old, bulk]) as producer:
        for _ in range(2):
            values, more = arguments_of(kind, [b"a", b"b"], [("n", b"0")])
            producer.send_many("orders", values, partition=0, **more).result(10)
    headers = [("n", b"0"), ("trace", b"1")]
    assert old.sent == [(value, None, headers) for value in (b"a", b"b")] * 2
    assert old.outcomes == [(0, b"a!"), (1, b"b!"), (2, b"a!"), (3, b"b!")]
    assert rows_in(cluster, 0) == [(b"a!", headers), (b"b!", headers)] * 2
    assert bulk.done == [((0, 0, 1, 2), None, [0, 1]), ((0, 2, 3, 2), None, [0, 1])]
    assert ("creates an object for each record" in caplog.text) == (kind != "lists")
    assert caplog.text.count("creates an object for each record") <= 1


def test_interceptors_without_hooks_for_records_cost_send_nothing(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    class Requests(ProducerInterceptor):
        def on_request(self, event: RequestSent) -> None: ...

    pa = pytest.importorskip("pyarrow")
    with simulation.producer(cluster, interceptors=[Requests(), ProducerInterceptor()]) as producer:
        assert producer._core.open_batches is not None
        producer.send_many("orders", pa.array([b"a"]), partition=0).result(10)
    assert rows_in(cluster, 0) == [(b"a", [])]


def test_every_row_of_a_send_many_is_reported_once(simulation: Simulation, cluster: KafkaCluster) -> None:
    bulk = Bulk()
    options: Any = {"buffer_memory": 40_000, "max_block_ms": 100, "bulk_batch_size": 10_000}
    with simulation.producer(cluster, interceptors=[bulk], **options) as producer:
        with pytest.raises(SerializationError):
            producer.send_many("orders", [b"a", 1], partition=0)  # type: ignore[list-item]
        assert bulk.done == [(None, "SerializationError", [0, 1])]
        with pytest.raises(IllegalArgument):
            producer.send_many("orders", [b"a", b"b"], keys=[b"k"])
        assert bulk.done.pop() == (None, "IllegalArgument", [0, 1])
        bulk.done.clear()
        cluster.controls.hold("Produce")
        with pytest.raises(IncompleteSend) as raised:
            producer.send_many("orders", [b"%d" % row * 3000 for row in range(30)], partition=0)
        assert bulk.done == [(None, "IncompleteSend", raised.value.left)]
        cluster.controls.release()
        producer.flush()
    assert sorted(row for *_, rows in bulk.done for row in rows) == [*range(30)]


@pytest.mark.parametrize("headers", [[("a", "text")], ["a"], [("\ud800", b"")], None], ids=repr)
def test_invalid_headers_of_a_bulk_hook_are_left_out(
    simulation: Simulation, cluster: KafkaCluster, headers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Wrong:
        def on_send_many(self, records: BulkRecords) -> None:
            records.headers = headers

    with simulation.producer(cluster, interceptors=[Wrong(), Bulk()]) as producer:
        producer.send_many("orders", [b"a"], partition=0).result(10)
    assert rows_in(cluster, 0) == [(b"a", [("trace", b"1")])]
    assert "its headers are left out" in caplog.text


@pytest.mark.parametrize(
    ("headers", "shared"),
    [
        (None, []),
        ([("own", b"2")], [("own", b"2")]),
        ([[("own", b"2")], None], []),
        (pyarrow.array([[{"key": "own", "value": b"2"}], None]), []),
    ],
)
def test_bulk_hooks_get_the_headers_of_all_rows(
    simulation: Simulation, cluster: KafkaCluster, headers: Any, shared: Any
) -> None:
    bulk = Bulk()
    with simulation.producer(cluster, interceptors=[bulk]) as producer:
        producer.send_many("orders", [b"a", b"b"], headers=headers, partition=0).result(10)
    assert [*bulk.calls[0].shared_headers] == shared
    own = [("own", b"2")]
    assert [found for _, found in rows_in(cluster, 0)] == [
        [*(own if headers else []), ("trace", b"1")]
        if headers is None or shared or row == 0
        else [("trace", b"1")]
        for row in (0, 1)
    ]


def test_requests_and_connections_are_reported(simulation: Simulation, cluster: KafkaCluster) -> None:
    events: list[Any] = []

    class Watching(ProducerInterceptor):
        def on_connect(self, event: ConnectionOpened) -> None:
            events.append(event)

        on_disconnect = on_request = on_response = on_throttle = on_connect  # type: ignore[assignment]

    cluster.controls.throttle(None, "Produce", 0.2, times=1)
    with simulation.producer(cluster, interceptors=[Watching()]) as producer:
        for partition in (0, 1):
            producer.send("orders", b"v", partition=partition).result(10)
        cluster.controls.stop_broker(1)
        simulation.run_for(1)
    sent = [event for event in events if isinstance(event, RequestSent) and event.api == "Produce"]
    answered = [event for event in events if isinstance(event, RequestAnswered) and event.api == "Produce"]
    assert {event.node_id for event in sent} == {event.node_id for event in answered} == {0, 1}
    assert all(event.size_bytes > 60 and event.version > 8 for event in [*sent, *answered[:0]])
    assert all(event.size_bytes > 20 and event.latency >= 0 and event.error is None for event in answered)
    throttled = [event for event in answered if event.throttle_time_ms]
    assert [event.throttle_time_ms for event in throttled] == [200, 200], "on_response and on_throttle"
    opened = [event.node_id for event in events if isinstance(event, ConnectionOpened)]
    assert {0, 1} <= {*opened}
    closed = [event for event in events if isinstance(event, ConnectionClosed)]
    assert any(event.node_id == 1 and event.was_ready for event in closed)
    assert any(event.node_id == 0 for event in closed), "the client has closed it"


class Chaotic:
    """Raises in every hook at random, and counts the records that it sees."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.calls: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("on_") and name != "close":
            raise AttributeError(name)

        def hook(*arguments: Any, **more: Any) -> None:
            self.calls[name] = self.calls.get(name, 0) + 1
            if self._random.random() < 0.5:
                raise RuntimeError(f"{name} is broken")

        return hook


class ChaoticSingles(Chaotic):
    """The same without hooks for `send_many`."""

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_many"):
            raise AttributeError(name)
        return super().__getattr__(name)


@pytest.mark.gate
def test_hooks_that_raise_at_random_lose_no_record(simulation: Simulation, cluster: KafkaCluster) -> None:
    count = 10_000
    chaotic, singles = Chaotic(1), ChaoticSingles(2)
    delivered: list[object] = []
    with simulation.producer(cluster, interceptors=[chaotic, singles]) as producer:
        for number in range(0, count, 10):
            for value in range(number, number + 5):
                producer.send("orders", b"%d" % value, on_delivery=lambda *found: delivered.append(found))
            producer.send_many("orders", [b"%d" % value for value in range(number + 5, number + 10)])
    assert sorted(int(v or b"") for p in (0, 1) for v in cluster.log("orders", p).values()) == [*range(count)]
    assert len(delivered) == count // 2
    assert all(error is None for _, error in delivered)  # type: ignore[misc]
    assert singles.calls["on_send"] == singles.calls["on_acknowledgement"] == count
    assert chaotic.calls["on_send"] == chaotic.calls["on_acknowledgement"] == count // 2
    assert chaotic.calls["on_send_many"] == count // 10
    assert chaotic.calls["close"] == chaotic.calls["on_start"] == 1


def test_refused_connection_is_reported(simulation: Simulation, cluster: KafkaCluster) -> None:
    closed: list[ConnectionClosed] = []

    class Watching:
        def on_disconnect(self, event: ConnectionClosed) -> None:
            closed.append(event)

    servers = cluster.bootstrap_servers
    for broker in (0, 1):
        cluster.controls.stop_broker(broker)
    options: Any = {"bootstrap_servers": servers, "interceptors": [Watching()], "max_block_ms": 2000}
    producer = simulation.producer(cluster, **options)
    with pytest.raises(NoBrokersAvailable):
        producer.send("orders", b"v")
    assert closed
    assert all(event.node_id < 0 and not event.was_ready and event.error for event in closed)
    producer.close()
