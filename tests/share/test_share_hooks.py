"""The hooks of share consumers, sync and asyncio, and the spans that OpenTelemetry makes with them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Set
from typing import Any

import pytest

from pykafka2 import (
    BadRecord,
    ClientInfo,
    ConsumerInterceptor,
    ConsumerRecord,
    KafkaProducer,
    Reject,
    TopicPartition,
    add_interceptor_factory,
    remove_interceptor_factory,
)
from pykafka2.errors import ConfigurationError, InvalidRecordState
from pykafka2.testing import KafkaCluster
from tests.share.test_aio_share_consumer import in_loop, member
from tests.share.world import QUICK, TOPICS, configure, consumer, fill, take, wait_for_fetches

pytestmark = [pytest.mark.gate, pytest.mark.slow]
quick = pytest.mark.kafka(brokers=2, topics=TOPICS, config=QUICK)

Records = dict[TopicPartition, list[ConsumerRecord[Any, Any]]]


class Noting(ConsumerInterceptor):
    """Notes the calls of its hooks; records are noted by topic and value."""

    def __init__(self, drops: Set[bytes] = frozenset()) -> None:
        self.kinds: list[str] = []
        self.polls = 0
        self.consumed: list[tuple[str, Any]] = []
        self.open: set[tuple[str, Any]] = set()
        self.done: dict[tuple[str, Any], str] = {}
        self.committed: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.longest = 0.0
        self.drops = drops

    def on_start(self, client: ClientInfo) -> None:
        self.kinds.append(f"{client.kind} of {client.group_id}")

    def on_poll_start(self) -> None:
        self.polls += 1

    def on_consume(self, records: Records) -> Records:
        self.consumed += [(one.topic, one.value) for some in records.values() for one in some]
        return {
            partition: [one for one in some if one.value not in self.drops]
            for partition, some in records.items()
        }

    def on_record(self, record: ConsumerRecord[Any, Any]) -> str:
        self.open.add((record.topic, record.value))
        return f"{record.topic} {record.offset}"

    def on_record_done(
        self, record: ConsumerRecord[Any, Any], error: BaseException | None, context: Any
    ) -> None:
        assert context == f"{record.topic} {record.offset}"
        self.open.remove((record.topic, record.value))
        self.done[record.topic, record.value] = type(error).__name__

    def on_acknowledgement_commit(
        self, offsets: Mapping[TopicPartition, Set[int]], error: BaseException | None, seconds: float
    ) -> None:
        counts = self.committed if error is None else self.failed
        for partition, some in offsets.items():
            counts[partition.topic] += len(some)
        self.longest = max(self.longest, seconds)


def outcome_of(value: bytes | None) -> None:
    """Handle a record: b"1" fails, b"2" is rejected, others succeed."""
    if value == b"1":
        raise ValueError("no such job")
    if value == b"2":
        raise Reject("never")


EXPECTED = {
    (topic, value): kind
    for topic in TOPICS
    for value, kind in ((b"0", "NoneType"), (b"1", "ValueError"), (b"2", "Reject"))
}


@quick
def test_block_of_a_record_calls_the_record_hooks_and_commits_are_reported(
    kafka_cluster: KafkaCluster,
) -> None:
    configure(kafka_cluster)
    sent = fill(kafka_cluster, 3)
    noting, second = Noting(), Noting()
    results: list[Any] = []
    with consumer(kafka_cluster, share_acknowledgement_mode="explicit", interceptors=[noting, second]) as one:
        one.set_acknowledgement_commit_callback(lambda offsets, error: results.append(error))
        for record in take(one, 6):
            try:
                with record:
                    assert (record.topic, record.value) in noting.open & second.open
                    outcome_of(record.value)
            except ValueError:
                pass
        one.commit()
        one.set_acknowledgement_commit_callback(None)
    for each in (noting, second):
        assert each.kinds == ["share_consumer of g"]
        assert each.polls >= 1
        assert set(each.consumed) == sent
        assert (each.done, each.open) == (EXPECTED, set())
        assert each.committed >= Counter(dict.fromkeys(TOPICS, 3))
        assert not each.failed
        assert 0 < each.longest < 30
    assert set(results) == {None}


@quick
@in_loop
async def test_tasks_of_an_asyncio_consumer_call_the_hooks(kafka_cluster: KafkaCluster) -> None:
    configure(kafka_cluster)
    sent = fill(kafka_cluster, 3)
    noting = Noting()

    async def work(one: Any) -> None:
        while True:  # each wakeup ends an iteration of one of the tasks
            async for record in one:
                try:
                    async with record:
                        await asyncio.sleep(0.001)
                        outcome_of(record.value)
                except ValueError:
                    one.wakeup()

    async with member(kafka_cluster, interceptors=[noting]) as one:
        pool = [asyncio.create_task(work(one)) for _ in range(3)]
        while set(noting.done) != sent or noting.open:
            await asyncio.sleep(0.01)
        for each in pool:
            each.cancel()
        await asyncio.wait(pool)
        await one.commit()
    assert {noting.done[place] for place in sent} <= {*EXPECTED.values(), "CancelledError"}
    assert {noting.done[topic, b"0"] for topic in TOPICS} == {"NoneType"}
    assert sum(noting.committed.values()) >= 6


@quick
def test_records_that_on_consume_leaves_out_are_rejected(kafka_cluster: KafkaCluster) -> None:
    configure(kafka_cluster)
    fill(kafka_cluster, 3)
    noting = Noting(drops={b"1"})
    with consumer(kafka_cluster, share_acknowledgement_mode="explicit", interceptors=[noting]) as one:
        records = take(one, 4)
        assert {record.value for record in records} == {b"0", b"2"}
        for record in records:
            with record:
                pass
        one.commit()
    assert noting.committed == Counter(dict.fromkeys(TOPICS, 3))
    with consumer(kafka_cluster) as other:
        assert not other.poll(500)


@quick
def test_interrupt_in_a_hook_releases_the_record_and_begins_no_block(kafka_cluster: KafkaCluster) -> None:
    class Interrupting(ConsumerInterceptor):
        raised: list[BaseException]

        def on_record(self, record: ConsumerRecord[Any, Any]) -> None:
            if self.raised:
                raise self.raised.pop()

    configure(kafka_cluster)
    fill(kafka_cluster, 1)
    interrupting = Interrupting()
    interrupting.raised = [KeyboardInterrupt()]
    noting = Noting()
    with consumer(
        kafka_cluster, share_acknowledgement_mode="explicit", interceptors=[noting, interrupting]
    ) as one:
        first, second = take(one, 2)
        with pytest.raises(KeyboardInterrupt), first:
            raise AssertionError("the block has begun")
        with second:
            pass
        (again,) = take(one, 1)
        assert (again.topic, again.delivery_count) == (first.topic, 2)
        with again:
            pass
    assert not noting.open


@quick
def test_lost_locks_are_reported_as_failed_commits(kafka_cluster: KafkaCluster) -> None:
    configure(kafka_cluster)
    fill(kafka_cluster, 1)
    noting = Noting()
    with consumer(kafka_cluster, share_acknowledgement_mode="explicit", interceptors=[noting]) as one:
        first, _ = take(one, 2)
        wait_for_fetches(one)
        kafka_cluster.controls.expire_locks("g")
        one.acknowledge(first)
        results = one.commit()
        assert {type(error) for error in results.values()} == {InvalidRecordState}
    assert noting.failed == Counter({first.topic: 1})


@quick
def test_factories_and_bad_records_have_their_hooks(kafka_cluster: KafkaCluster) -> None:
    class Bad(Noting):
        bad: list[tuple[bytes | None, bool]]

        def on_bad_record(self, record: BadRecord, is_skipped: bool) -> None:
            self.bad.append((record.value, is_skipped))

    made: list[Bad] = []

    def factory(kind: str, interceptors: tuple[Any, ...]) -> Bad | None:
        if kind != "share_consumer":
            return None
        made.append(Bad())
        made[-1].bad = []
        return made[-1]

    configure(kafka_cluster)
    with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
        for value in (b"7", b"seven"):
            producer.send("t", value, partition=0)
    add_interceptor_factory(factory)
    try:
        with consumer(kafka_cluster, value_deserializer=int, on_bad_record="skip") as one:
            assert [record.value for record in take(one, 1)] == [7]
            (bad,) = made
            while not bad.bad:  # the two records can come with two responses
                one.poll(100)
    finally:
        remove_interceptor_factory(factory)
    assert bad.bad == [(b"seven", True)]


def test_coroutine_functions_are_refused_as_hooks() -> None:
    class Awaiting:
        async def on_acknowledgement_commit(self, offsets: Any, error: Any, seconds: float) -> None: ...

    from pykafka2 import KafkaShareConsumer

    with pytest.raises(ConfigurationError, match="on_acknowledgement_commit"):
        KafkaShareConsumer(group_id="g", interceptors=[Awaiting()])


@quick
def test_opentelemetry_has_a_process_span_for_each_block_in_the_trace_of_the_producer(
    kafka_cluster: KafkaCluster,
) -> None:
    pytest.importorskip("opentelemetry.sdk")
    pytest.importorskip("opentelemetry.instrumentation")
    from opentelemetry import trace
    from opentelemetry.trace import StatusCode

    from pykafka2.contrib.opentelemetry import PyKafka2Instrumentor
    from tests.contrib.recorded import Recorded, attribute, ids, parent_of

    configure(kafka_cluster)
    recorded = Recorded()
    instrumentor = PyKafka2Instrumentor()
    instrumentor.instrument(**recorded.providers, client_metrics=True)
    try:
        fill(kafka_cluster, 3)
        with consumer(kafka_cluster, share_acknowledgement_mode="explicit") as one:
            for record in take(one, 6):
                try:
                    with record:
                        inside = trace.get_current_span().get_span_context()
                        outcome_of(record.value)
                except ValueError:
                    pass
            assert ids(recorded.spans("process")[-1]) == (inside.trace_id, inside.span_id)
            one.commit()
            metrics = recorded.metrics()
        assert trace.get_current_span() is trace.INVALID_SPAN
    finally:
        instrumentor.uninstrument()
    sent = {ids(span): span.name for span in recorded.spans("send")}
    spans = recorded.spans("process")
    assert Counter(span.name for span in spans) == {f"process {topic}": 3 for topic in TOPICS}
    for span in spans:
        parent = parent_of(span)
        assert parent is not None
        assert sent[parent].split()[1] == span.name.split()[1]
        assert attribute(span, "consumer.group.name") == "g"
    errors = Counter((span.attributes or {}).get("error.type") for span in spans)
    assert errors == {None: 2, "ValueError": 2, "Reject": 2}
    assert sum(span.status.status_code is StatusCode.ERROR for span in spans) == 4
    commits = recorded.spans("commit")
    assert sum(attribute(span, "batch.message_count") for span in commits) >= 6
    polls = recorded.spans("poll")
    assert sum(attribute(span, "batch.message_count") for span in polls) == 6
    assert sum(value for value, _ in metrics["messaging.client.consumed.messages"]) == 6
    [(total, tags)] = metrics["kafka.share_consumer.records_consumed_total"]
    assert (total, tags["client-id"]) == (6, "pykafka2-share-consumer")
    recorded.meter_provider.shutdown()
