"""The hooks of a consumer's interceptors: records being processed, columns, commits, rebalances, polls."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from pykafka2 import (
    BadRecord,
    ClientInfo,
    Columns,
    ConsumerInterceptor,
    ConsumerRecord,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
)
from pykafka2.errors import GroupAuthorizationFailed, SerializationError
from pykafka2.testing import KafkaCluster, Simulation
from tests.consumer.commit.stories import FIRST, ORDERS, SECOND, produce, read, reader
from tests.internal_topics import FEW_PARTITIONS

CONFIG = {"group.initial.rebalance.delay.ms": 0, **FEW_PARTITIONS}


@pytest.fixture
def cluster(simulation: Simulation) -> KafkaCluster:
    made = simulation.cluster(2, {"orders": 2}, config=CONFIG)
    produce(simulation, made, 5, ORDERS)
    return made


class Spans(ConsumerInterceptor):
    """The beginning and the end of each record as pairs of a sign and the record's place."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int, int]] = []
        self.errors: list[str] = []

    def on_record(self, record: ConsumerRecord[Any, Any]) -> str:
        self.seen.append(("+", record.partition, record.offset))
        return f"{record.partition}@{record.offset}"

    def on_record_done(
        self, record: ConsumerRecord[Any, Any], error: BaseException | None, context: Any
    ) -> None:
        assert context == f"{record.partition}@{record.offset}"
        self.seen.append(("-", record.partition, record.offset))
        self.errors.append("" if error is None else repr(error))

    @property
    def open(self) -> int:
        return sum(1 if sign == "+" else -1 for sign, *_ in self.seen)


class OnlyDone:
    def __init__(self) -> None:
        self.offsets: list[int] = []

    def on_record_done(self, record: Any, error: Any, context: Any) -> None:
        assert context is None
        self.offsets.append(record.offset)


def place(record: ConsumerRecord[Any, Any]) -> tuple[int, int]:
    return record.partition, record.offset


def test_iteration_calls_hooks_around_each_record(simulation: Simulation, cluster: KafkaCluster) -> None:
    spans, only = Spans(), OnlyDone()
    consumer = reader(simulation, cluster, interceptors=[spans, only], consumer_timeout_ms=1000)
    found = []
    for record in consumer:
        assert spans.open == 1
        assert spans.seen[-1] == ("+", *place(record))
        found.append(place(record))
    assert sorted(found) == [(partition, offset) for partition in (0, 1) for offset in range(5)]
    assert spans.seen == [(sign, *at) for at in found for sign in "+-"]
    assert only.offsets == [offset for _, offset in found]
    assert {*spans.errors} == {""}


def test_interceptors_end_a_record_in_the_reverse_order(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    seen: list[tuple[str, Any]] = []

    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

        def on_record(self, record: Any) -> str:
            seen.append(("+", self.name))
            return self.name

        def on_record_done(self, record: Any, error: Any, context: Any) -> None:
            seen.append(("-", context))
            raise KeyboardInterrupt(self.name)

    consumer = reader(simulation, cluster, [FIRST], interceptors=[Named("a"), Named("b")])
    [record] = consumer.poll(5000, max_records=1)[FIRST]
    with pytest.raises(KeyboardInterrupt), consumer.process_span(record):
        pass
    assert seen == [("+", "a"), ("+", "b"), ("-", "b"), ("-", "a")], "also if an interrupt ends one"


def test_commit_that_a_close_abandons_is_reported(simulation: Simulation, cluster: KafkaCluster) -> None:
    errors: list[str] = []

    class Watching:
        def on_commit(self, offsets: Any, error: BaseException | None) -> None:
            errors.append(type(error).__name__)

    consumer = reader(simulation, cluster, [FIRST], interceptors=[Watching()])
    read(consumer, 1)
    cluster.controls.hold("OffsetCommit")
    consumer.commit_async(callback=lambda *_: None)
    consumer.close(timeout=1)
    assert errors == ["KafkaTimeoutError"]


def test_leaving_the_loop_ends_the_record(simulation: Simulation, cluster: KafkaCluster) -> None:
    spans = Spans()
    consumer = reader(simulation, cluster, [FIRST], interceptors=[spans])
    for _ in consumer:
        break
    assert spans.open == 0

    def fail() -> None:
        for _ in consumer:
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        fail()
    assert spans.seen == [("+", 0, 0), ("-", 0, 0), ("+", 0, 1), ("-", 0, 1)]
    assert spans.errors == ["", ""], "an iterator does not see the exception of its loop"
    assert read(consumer, 1) == {FIRST: [2]}


def test_next_ends_the_record_before_and_close_ends_the_last(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    spans = Spans()
    with reader(simulation, cluster, [FIRST], interceptors=[spans], consumer_timeout_ms=2000) as consumer:
        assert [next(consumer).offset for _ in range(2)] == [0, 1]
        assert spans.seen == [("+", 0, 0), ("-", 0, 0), ("+", 0, 1)]
        assert [record.offset for record in consumer] == [2, 3, 4]
        with pytest.raises(StopIteration):
            next(consumer)
        produce(simulation, cluster, 1, [FIRST])
        assert next(consumer).offset == 5, "it goes on after its timeout"
        assert spans.open == 1
    assert spans.open == 0


def test_close_ends_the_record_of_an_iterator_that_is_kept(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    spans = Spans()
    with reader(simulation, cluster, [FIRST], interceptors=[spans]) as consumer:
        kept = iter(consumer), iter(consumer)
        for records in kept:
            next(records)
        assert spans.open == 2
    assert spans.open == 0


@pytest.mark.gate
def test_hook_of_a_rebalance_is_called_though_the_listener_raises(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    seen: list[Any] = []

    class Watching:
        def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            seen.extend(partitions)

    def fail(partitions: Sequence[TopicPartition]) -> None:
        raise ValueError("mine")

    consumer = simulation.consumer(cluster, group_id="g", interceptors=[Watching()])
    consumer.subscribe(["orders"], on_assigned=fail)
    with pytest.raises(ValueError, match="mine"):
        consumer.poll(10_000)
    assert seen == ORDERS


def test_process_span_sees_the_exception_of_its_block(simulation: Simulation, cluster: KafkaCluster) -> None:
    spans = Spans()
    consumer = reader(simulation, cluster, [FIRST], interceptors=[spans])
    records = consumer.poll(5000)[FIRST]
    assert spans.seen == []
    with consumer.process_span(records[0]) as record:
        assert record is records[0]
        assert spans.seen == [("+", 0, 0)]
    with pytest.raises(KeyError), consumer.process_span(records[1]):
        raise KeyError("k")
    assert spans.errors == ["", "KeyError('k')"]
    plain = reader(simulation, cluster, [SECOND])
    with plain.process_span(records[0]) as record:
        assert record is records[0]


def test_seek_of_a_hook_moves_the_iteration(simulation: Simulation, cluster: KafkaCluster) -> None:
    class Skipping(Spans):
        def on_record(self, record: ConsumerRecord[Any, Any]) -> str:
            if record.offset == 1:
                consumer.seek(FIRST, 3)
            return super().on_record(record)

    spans = Skipping()
    consumer = reader(simulation, cluster, [FIRST], interceptors=[spans], consumer_timeout_ms=2000)
    assert [record.offset for record in consumer] == [0, 3, 4]
    assert spans.open == 0


def test_interrupt_in_a_hook_loses_no_record(simulation: Simulation, cluster: KafkaCluster) -> None:
    class Interrupted(Spans):
        left = 2

        def on_record(self, record: ConsumerRecord[Any, Any]) -> str:
            place = super().on_record(record)
            if record.offset == 2 and self.left:
                self.left -= 1
                raise KeyboardInterrupt
            return place

    class First(OnlyDone):
        pass

    first, spans = First(), Interrupted()
    consumer = reader(simulation, cluster, [FIRST], interceptors=[first, spans], consumer_timeout_ms=2000)
    found: list[int] = []

    def read_all() -> None:
        found.extend(record.offset for record in consumer)

    def read_next() -> None:
        while True:
            found.append(next(consumer).offset)

    for read_some in (read_all, read_next):
        with pytest.raises(KeyboardInterrupt):
            read_some()
    found += [record.offset for record in consumer]
    assert found == [0, 1, 2, 3, 4]
    assert first.offsets == [0, 1, 2, 2, 2, 3, 4], "what began also ends"


def test_columns_and_ranges_call_on_columns(simulation: Simulation, cluster: KafkaCluster) -> None:
    class Counting(ConsumerInterceptor):
        def __init__(self) -> None:
            self.seen: list[tuple[str, int, int, int]] = []

        def on_columns(self, partition: TopicPartition, columns: Columns) -> None:
            self.seen.append((str(partition), len(columns), columns.first_offset, columns.last_offset))

    counting = Counting()
    consumer = reader(simulation, cluster, interceptors=[counting])
    assert sum(len(columns) for _ in range(2) for columns in consumer.poll_columns(5000).values()) == 10
    assert sorted(counting.seen) == [("orders-0", 5, 0, 4), ("orders-1", 5, 0, 4)]
    counting.seen.clear()
    assert sum(map(len, consumer.read_range(SECOND, 2, 5))) == 3
    assert counting.seen == [("orders-1", 3, 2, 4)]


class Commits:
    """Two interceptors: one that sees failures, and an old one that does not."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[int, str | None]] = []
        self.written: list[int] = []
        outcomes, written = self.outcomes, self.written

        class New:
            def on_commit(
                self,
                offsets: Mapping[TopicPartition, OffsetAndMetadata],
                error: BaseException | None = None,
            ) -> None:
                outcomes.append((offsets[FIRST].offset, None if error is None else type(error).__name__))

        class Old:
            def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
                written.append(offsets[FIRST].offset)

        class Named:
            def on_commit(self, offsets: Any, failure: Any, /) -> None:
                assert (failure is None) == (outcomes[-1][1] is None)

        self.interceptors = [New(), Old(), Named()]


def test_failed_commits_are_reported_to_hooks_with_an_error(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    commits = Commits()
    consumer = reader(simulation, cluster, [FIRST], interceptors=commits.interceptors)
    read(consumer, 2)
    consumer.commit()
    cluster.controls.rule(api="OffsetCommit", then="error:GROUP_AUTHORIZATION_FAILED", times=2)
    read(consumer, 1)
    with pytest.raises(GroupAuthorizationFailed):
        consumer.commit()
    consumer.commit_async(callback=lambda *_: None)
    simulation.run_for(1)
    consumer.poll(0)
    consumer.commit()
    assert commits.outcomes == [
        (2, None),
        (3, "GroupAuthorizationFailed"),
        (3, "GroupAuthorizationFailed"),
        (3, None),
    ] or commits.outcomes[3:] == [(5, None)]
    assert commits.written == [offset for offset, error in commits.outcomes if error is None]
    consumer.close()


def test_hooks_get_the_duration_of_a_commit(simulation: Simulation, cluster: KafkaCluster) -> None:
    class Timed:
        def __init__(self) -> None:
            self.seconds: list[float] = []

        def on_commit(self, offsets: Any, error: Any, *, seconds: float) -> None:
            assert error is None
            self.seconds.append(seconds)

    timed = Timed()
    consumer = reader(simulation, cluster, [FIRST], interceptors=[timed])
    read(consumer, 1)
    cluster.controls.rule(api="OffsetCommit", then="delay:0.5", times=2)
    consumer.commit()
    consumer.commit_async(callback=lambda *_: None)
    simulation.run_for(5)
    consumer.poll(0)
    assert all(0.5 <= seconds < 1 for seconds in timed.seconds)
    assert len(timed.seconds) == 2
    consumer.close()


@pytest.mark.gate
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_rebalances_are_reported_after_the_listener(
    simulation: Simulation, cluster: KafkaCluster, protocol: str
) -> None:
    calls: list[tuple[str, list[TopicPartition]]] = []

    class Watching(ConsumerInterceptor):
        def on_start(self, client: ClientInfo) -> None:
            assert (client.kind, client.group_id) == ("consumer", "g")

        def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            calls.append(("assigned", [*partitions]))
            raise RuntimeError("which is logged")

        def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            calls.append(("revoked", [*partitions]))

        def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
            calls.append(("lost", [*partitions]))

    options: Any = {
        "group_id": "g",
        "group_protocol": protocol,
        "auto_offset_reset": "earliest",
        "max_poll_interval_ms": 20_000,
        "interceptors": [Watching()],
    }
    if protocol == "classic":
        options["session_timeout_ms"] = 10_000
    consumer = simulation.consumer(cluster, **options)
    consumer.subscribe(["orders"], on_assigned=lambda some: calls.append(("listener", [*some])))
    assert consumer.poll(10_000)
    assert calls == [("listener", ORDERS), ("assigned", ORDERS)]
    simulation.run_for(30)  # without a poll
    consumer.poll(10_000)
    consumer.close()
    kinds = [kind for kind, some in calls if some]
    assert kinds == ["listener", "assigned", "lost", "listener", "assigned", "revoked"]


def test_start_of_a_poll_is_reported(simulation: Simulation, cluster: KafkaCluster) -> None:
    class Starts:
        count = 0

        def on_poll_start(self) -> None:
            self.count += 1

    starts = Starts()
    consumer = reader(simulation, cluster, [FIRST], interceptors=[starts], consumer_timeout_ms=2000)
    consumer.poll(5000, max_records=1)
    consumer.poll_columns(0, max_records=1)
    assert starts.count == 2
    consumer.seek(FIRST, 0)
    assert len([*consumer]) == 5
    assert starts.count == 4, "one that returned records, one that found none"


@pytest.mark.parametrize("policy", ["raise", "skip", "call"])
def test_bad_records_are_reported(simulation: Simulation, cluster: KafkaCluster, policy: str) -> None:
    class Bad(ConsumerInterceptor):
        def __init__(self) -> None:
            self.seen: list[tuple[int, bool]] = []

        def on_bad_record(self, record: BadRecord, is_skipped: bool) -> None:
            self.seen.append((record.offset, is_skipped))

    def parse(data: bytes) -> int:
        if data == b"2":
            raise ValueError("two is not welcome")
        return int(data)

    bad = Bad()
    decide: Any = (lambda record: None) if policy == "call" else policy
    consumer = reader(
        simulation, cluster, [FIRST], interceptors=[bad], value_deserializer=parse, on_bad_record=decide
    )
    if policy == "raise":
        assert [record.offset for record in consumer.poll(5000)[FIRST]] == [0, 1]
        for _ in range(2):
            with pytest.raises(SerializationError):
                consumer.poll(5000)
        assert {*bad.seen} == {(2, False)}
    else:
        assert [record.offset for record in consumer.poll(5000)[FIRST]] == [0, 1, 3, 4]
        assert bad.seen == [(2, True)]


class Chaotic:
    """Raises in every hook at random, and counts its calls."""

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


MANY = 10_000


def by_poll(consumer: KafkaConsumer) -> Iterator[bytes | None]:
    while polled := consumer.poll(2000, max_records=1):
        for records in polled.values():
            for record in records:
                with consumer.process_span(record):
                    yield record.value


def by_iteration(consumer: KafkaConsumer) -> Iterator[bytes | None]:
    for record in consumer:
        yield record.value


@pytest.mark.gate
@pytest.mark.parametrize("way", [by_poll, by_iteration], ids=["polls", "iteration"])
def test_hooks_that_raise_at_random_lose_no_record(
    simulation: Simulation, way: Callable[[KafkaConsumer], Iterator[bytes | None]]
) -> None:
    cluster = simulation.cluster(2, {"orders": 2}, config=CONFIG)
    with simulation.producer(cluster) as producer:
        for partition in (0, 1):
            values = [b"%d" % value for value in range(partition, MANY, 2)]
            producer.send_many("orders", values, partition=partition)
    chaotic, more = Chaotic(1), Chaotic(2)
    options: Any = {"group_id": "g", "auto_offset_reset": "earliest", "consumer_timeout_ms": 2000}
    with simulation.consumer(cluster, "orders", interceptors=[chaotic, more], **options) as consumer:
        found = [int(value or b"") for value in way(consumer)]
    assert sorted(found) == [*range(MANY)]
    assert sum(cluster.group("g").offsets.values()) == MANY
    assert chaotic.calls["on_record"] == chaotic.calls["on_record_done"] == MANY
    for name in ("on_assigned", "on_revoked", "on_commit", "on_poll_start", "on_connect", "on_response"):
        assert chaotic.calls[name], name
    assert chaotic.calls["close"] == more.calls["on_start"] == 1


@pytest.mark.gate
@pytest.mark.kafka(brokers=1, topics={"orders": 2})
def test_hooks_that_raise_at_random_lose_no_record_on_sockets(kafka_cluster: KafkaCluster) -> None:
    servers, sending, reading = kafka_cluster.bootstrap_servers, Chaotic(1), Chaotic(2)
    with KafkaProducer(bootstrap_servers=servers, interceptors=[sending]) as producer:
        for value in range(MANY):
            producer.send("orders", b"%d" % value)
    options: Any = {"group_id": "g", "auto_offset_reset": "earliest", "interceptors": [reading]}
    found: list[int] = []
    with KafkaConsumer("orders", bootstrap_servers=servers, **options) as consumer:
        for record in consumer:
            found.append(int(record.value or b""))
            if len(found) == MANY:
                break
    assert sorted(found) == [*range(MANY)]
    assert sending.calls["on_send"] == sending.calls["on_acknowledgement"] == MANY
    assert reading.calls["on_record"] == reading.calls["on_record_done"] == MANY
