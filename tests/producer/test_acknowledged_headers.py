"""`on_acknowledgement` gets the headers of the record (KIP-512), if it has a parameter for them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pykafka2 import KafkaProducer
from pykafka2.aio import KafkaProducer as AsyncProducer
from pykafka2.errors import IllegalArgument, IncompleteSend, KafkaError, RecordTooLarge, SerializationError
from pykafka2.producer.interceptors import Interceptors, ProducerInterceptor, ProducerRecord
from pykafka2.testing import KafkaCluster
from pykafka2.types import Headers, RecordMetadata

pytestmark = pytest.mark.kafka(brokers=1, topics={"orders": 2})

Seen = list[tuple[str, list[Any]]]


class Tracing:
    """Adds a header to each record, and keeps the headers of each acknowledgement."""

    def __init__(self) -> None:
        self.seen: Seen = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        record.headers = [*(record.headers or []), ("trace", str(record.value).encode())]
        return record

    def on_acknowledgement(self, metadata: Any, error: Any, headers: Headers) -> None:
        self.seen.append(("written" if error is None else type(error).__name__, list(headers)))


class WithoutHeaders:
    def __init__(self) -> None:
        self.outcomes: list[bool] = []

    def on_acknowledgement(self, metadata: Any, error: Any) -> None:
        self.outcomes.append(error is None)


def producer_of(cluster: KafkaCluster, *interceptors: object, **options: Any) -> KafkaProducer:
    return KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, interceptors=[*interceptors], **options)


def trace(value: object) -> tuple[str, bytes]:
    return "trace", str(value).encode()


def test_headers_are_those_of_the_record_as_sent(kafka_cluster: KafkaCluster) -> None:
    tracing, plain = Tracing(), WithoutHeaders()
    with producer_of(kafka_cluster, plain, tracing) as producer:
        producer.send("orders", b"a", partition=0)
        producer.send("orders", b"b", partition=0, headers=[("n", None), ("n", b"\xff")])
        called: list[object] = []
        producer.send("orders", b"c", partition=0, on_delivery=lambda *_: called.append(len(tracing.seen)))
    assert len(tracing.seen) == 3
    for headers in ([trace(b"a")], [("n", None), ("n", b"\xff"), trace(b"b")], [trace(b"c")]):
        assert ("written", headers) in tracing.seen
    assert plain.outcomes == [True, True, True]
    assert called[0] in (1, 2, 3), "the interceptor is called before on_delivery"


def test_headers_of_a_serializer_are_among_them(kafka_cluster: KafkaCluster) -> None:
    class Typed:
        def serialize(self, topic: str, headers: Headers, data: Any) -> bytes:
            headers.append(("type", b"str"))
            return str(data).encode()

    tracing = Tracing()
    with producer_of(kafka_cluster, tracing, value_serializer=Typed()) as producer:
        producer.send("orders", "a")
        producer.send_many("orders", ["b"], partition=0)
    assert sorted(tracing.seen) == [
        ("written", [trace("a"), ("type", b"str")]),
        ("written", [trace("b"), ("type", b"str")]),
    ]


def test_record_that_was_not_appended_has_its_headers(kafka_cluster: KafkaCluster) -> None:
    tracing = Tracing()
    with producer_of(kafka_cluster, tracing, max_request_size=1000) as producer:
        with pytest.raises(IllegalArgument):
            producer.send("orders", 7, headers=[("a", b"1")])
        with pytest.raises(RecordTooLarge):
            producer.send("orders", b"x" * 2000)
        with pytest.raises(IllegalArgument):
            producer.send("orders", b"v", headers=[("a", "text")])  # type: ignore[list-item]
    assert tracing.seen == [
        ("IllegalArgument", [("a", b"1"), trace(7)]),
        ("RecordTooLarge", [trace(b"x" * 2000)]),
        ("IllegalArgument", [("a", "text"), trace(b"v")]),
    ]


def test_send_many_gives_each_record_its_headers(kafka_cluster: KafkaCluster) -> None:
    tracing = Tracing()
    with producer_of(kafka_cluster, tracing) as producer:
        headers = [[("n", b"0")], None, [("n", b"2")], None]
        bulk = producer.send_many(
            "orders", [b"0", b"1", b"2", b"3"], headers=headers, partitions=[0, 1, 1, 0]
        )
        bulk.result(30)
        assert kafka_cluster.wait_until(lambda: len(tracing.seen) == 4, 30)  # reported after the result
        assert sorted(tracing.seen) == [
            ("written", [("n", b"0"), trace(b"0")]),
            ("written", [("n", b"2"), trace(b"2")]),
            ("written", [trace(b"1")]),
            ("written", [trace(b"3")]),
        ]
        tracing.seen.clear()
        with pytest.raises(SerializationError):
            producer.send_many("orders", [b"0", 1], headers=[[("n", b"0")], [("n", b"1")]])  # type: ignore[list-item]
        assert tracing.seen == [
            ("SerializationError", [("n", b"0"), trace(b"0")]),
            ("SerializationError", [("n", b"1"), trace(1)]),
        ]


def test_rows_that_send_many_did_not_append_have_their_headers(kafka_cluster: KafkaCluster) -> None:
    tracing = Tracing()
    kafka_cluster.controls.hold("Produce")
    options: dict[str, Any] = {"buffer_memory": 40_000, "max_block_ms": 2000, "bulk_batch_size": 10_000}
    with producer_of(kafka_cluster, tracing, **options) as producer:
        values = [b"%d" % number * 3000 for number in range(8)]
        with pytest.raises(IncompleteSend) as raised:
            producer.send_many("orders", values, partition=0)
        kafka_cluster.controls.release()
        producer.flush()
        assert kafka_cluster.wait_until(lambda: len(tracing.seen) == len(values), 30)
        refused = [headers for outcome, headers in tracing.seen if outcome != "written"]
        assert 0 < len(refused) < len(values)
        assert refused == [[trace(values[row])] for row in raised.value.left]
        assert sorted(str(headers) for _, headers in tracing.seen) == sorted(
            str([trace(value)]) for value in values
        )


def test_asyncio_interceptors_get_headers_on_the_loop(kafka_cluster: KafkaCluster) -> None:
    order: list[str] = []

    class OnLoop(Tracing):
        def on_acknowledgement(self, metadata: Any, error: Any, headers: Headers) -> None:
            assert asyncio.get_running_loop()
            super().on_acknowledgement(metadata, error, headers)
            order.append("interceptor")

    tracing = OnLoop()

    async def program() -> None:
        servers = kafka_cluster.bootstrap_servers
        async with AsyncProducer(bootstrap_servers=servers, interceptors=[tracing]) as producer:
            await producer.send_and_wait("orders", b"a", partition=0)
            delivery = await producer.send(
                "orders", b"b", partition=0, on_delivery=lambda *_: order.append("on_delivery")
            )
            await delivery
            with pytest.raises(IllegalArgument):
                await producer.send("orders", 7, headers=[("a", b"1")])  # type: ignore[arg-type]

    asyncio.run(program())
    assert tracing.seen == [
        ("written", [trace(b"a")]),
        ("written", [trace(b"b")]),
        ("IllegalArgument", [("a", b"1"), trace(7)]),
    ]
    assert order == ["interceptor", "interceptor", "on_delivery", "interceptor"]


def test_only_a_parameter_for_headers_gets_them() -> None:
    calls: list[tuple[object, ...]] = []

    class Named(ProducerInterceptor):
        def on_acknowledgement(
            self, metadata: RecordMetadata | None, error: KafkaError | None, *, headers: Headers | None = None
        ) -> None:
            calls.append(("named", headers))

    class Third:
        def on_acknowledgement(self, metadata: Any, error: Any, sent: Headers) -> None:
            calls.append(("third", sent))

    class Positional:
        def on_acknowledgement(self, metadata: Any, error: Any, headers: Headers, /) -> None:
            calls.append(("positional", headers))

    class Default:
        def on_acknowledgement(self, metadata: Any, error: Any, log: str = "mine") -> None:
            calls.append(("default", log))

    class Variadic:
        def on_acknowledgement(self, *args: Any) -> None:
            calls.append(("any", len(args)))

    interceptors = Interceptors(
        (Named(), Third(), Positional(), Default(), Variadic(), ProducerInterceptor())
    )
    interceptors.on_acknowledgement(None, KafkaError("no"), b"\x02\x02a\x02b")
    headers = [("a", b"b")]
    assert calls == [
        ("named", headers),
        ("third", headers),
        ("positional", headers),
        ("default", "mine"),
        ("any", 2),
    ]


@pytest.mark.parametrize("own", [[("a", b"b")], b"\x02\x02a\x02b"])
def test_each_interceptor_has_a_list_of_headers_of_its_own(own: Any) -> None:
    seen: list[Headers] = []

    class Changing:
        def on_acknowledgement(self, metadata: Any, error: Any, headers: Headers) -> None:
            seen.append([*headers])
            headers.clear()

    Interceptors((Changing(), Changing())).on_acknowledgement(None, KafkaError("no"), own)
    assert seen == [[("a", b"b")]] * 2
    assert own
