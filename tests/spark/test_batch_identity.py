"""Contents of the ledger for a batch: counts and digests of rows, source offsets, and how they are stored."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pyarrow as pa
import pytest

from pykafka2 import KafkaProducer, TransactionHandle
from pykafka2.errors import ConfigurationError
from spark_connector.errors import ExactlyOnceError
from spark_connector.options.sink_options import EXACTLY_ONCE, PER_TASK
from spark_connector.sink import context
from spark_connector.sink.checkpoint import PlannedBatch, planned_batch
from spark_connector.sink.context import Epoch, TaskPlace
from spark_connector.sink.exactly_once.identity import BatchIdentity, Marker, Tally, TaskRows
from spark_connector.sink.exactly_once.ledger_state import LedgerState, Phase, from_bytes, to_bytes
from spark_connector.sink.exactly_once.messages import OpenTransaction, Written
from spark_connector.sink.exactly_once.runner import Cluster
from spark_connector.sink.task import MOST_TASKS, write_epoch
from tests.spark.test_exactly_once import World, _hooked, rows, world

__all__ = ["_hooked", "world"]  # fixtures


def digest(*batches: list[bytes | str | None], keys: list[str] | None = None) -> int | None:
    tally = Tally(True)
    for values in batches:
        columns = {"value": pa.array(values)}
        if keys is not None:
            columns["Key"] = pa.array(keys)
        tally.add(pa.record_batch(columns))
    return tally.digest


def test_digest_depends_on_neither_order_nor_arrow_batches() -> None:
    assert digest(["a", "b", None], ["c"]) == digest(["c", None], ["a"], ["b"])
    assert digest(["a", "b"]) == digest([b"a", b"b"])


def test_digest_depends_on_each_key_and_value() -> None:
    found = [
        digest(["a", "b"]),
        digest(["a", "a"]),
        digest(["a", None]),
        digest(["a", ""]),
        digest(["a", "b"], keys=["1", "2"]),
        digest(["a", "b"], keys=["2", "1"]),
        digest(["1", "2"], keys=["a", "b"]),
    ]
    assert len(set(found)) == len(found)


def test_digest_depends_on_topic_and_partition_of_each_row() -> None:
    found = []
    for topics, partitions in (("ab", [0, 1]), ("ba", [0, 1]), ("ab", [1, 0]), ("ab", [0, None])):
        tally = Tally(True)
        columns = {"value": ["x", "y"], "topic": list(topics), "partition": pa.array(partitions, pa.int32())}
        tally.add(pa.record_batch(columns))
        found.append(tally.digest)
    assert len(set(found)) == len(found)


def test_digests_of_consecutive_ranges_of_binary_ids_differ() -> None:
    """Sums of their CRCs are equal, as CRCs are linear."""
    first, second = ([one.to_bytes(8, "big") for one in range(at, at + 1024)] for at in (0, 1024))
    assert digest(first) != digest(second)


def test_digest_is_computed_only_on_request() -> None:
    tally = Tally(False)
    tally.add(pa.record_batch({"value": pa.array(["a", "b"])}))
    assert (tally.rows, tally.digest) == (2, None)


def identity(source: str | None, *rows: int, digest: int | None = None) -> BatchIdentity:
    return BatchIdentity.of(
        [Written(task, count, source=source, digest=digest) for task, count in enumerate(rows)]
    )


@pytest.mark.parametrize(
    ("before", "now", "difference"),
    [
        (identity("s", 2, 3), identity("s", 2, 3), None),
        (identity("s", 2, 3), identity("t", 2, 3), "other source offsets"),
        (identity("s", 2, 3), identity(None, 2, 3), None),
        (identity("s", 2, 3), identity("s", 3, 2), "task 0 had 2 rows and has 3 rows now"),
        (identity("s", 2, 1), identity("s", 2, 0), "task 1 had 1 row and has 0 rows now"),
        (identity("s", 2, 0), identity("s", 2), "had 2 tasks and has 1 now"),
        (identity(None, 2, digest=1), identity(None, 2, digest=2), "other keys or values"),
        (identity("s", 2, digest=1), identity("s", 2, digest=2), "other keys or values"),
        (identity("s", 2, digest=1), identity("s", 2), None),
        (identity(None, 2, digest=1), identity(None, 2), None),
    ],
)
def test_difference_of_two_batches(before: BatchIdentity, now: BatchIdentity, difference: str | None) -> None:
    found = before.difference(now)
    assert found is None if difference is None else difference in str(found)


@pytest.mark.parametrize(
    ("before", "now", "is_same"),
    [
        (identity("s", 2, 3), identity("s", 5), True),
        (identity("s", 2, 3), identity("s", 4), False),
        (identity("s", 2, 3), identity("t", 5), False),
        (identity("s", 2, 3), identity(None, 5), False),
        (identity(None, 2, 3, digest=(1 << 64) - 1), identity(None, 5, digest=(1 << 64) - 2), True),
        (identity(None, 2, 3, digest=1), identity(None, 5, digest=3), False),
        (identity(None, 2, 3, digest=0), identity(None, 5), False),
        (identity(None, 2, 3), identity(None, 5), False),
        (identity(None, 0, 0), identity(None, 0), True),
    ],
)
def test_batches_of_another_split_have_the_same_rows_if_offsets_or_digests_prove_it(
    before: BatchIdentity, now: BatchIdentity, is_same: bool
) -> None:
    assert before.has_same_rows(now) is is_same
    assert now.has_same_rows(before) is is_same


def test_source_offsets_are_those_of_the_newest_batch_in_the_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "offsets"
    folder.mkdir()
    options = {"checkpointLocation": str(tmp_path)}
    assert planned_batch(options) is None
    (folder / "9").write_text('v1\n{"batchTimestampMs":1}\n{"t":{"0":10}}')
    (folder / "10").write_text('v1\n{"batchTimestampMs":2}\n{"t":{"0":20}}')
    (folder / ".10.crc").write_bytes(b"crc")
    (folder / "11.abc.tmp").write_bytes(b"half")
    found = planned_batch(options)
    assert found is not None
    assert found.number == 10
    (folder / "10").write_text('v1\n{"batchTimestampMs":3}\n{"t":{"0":20}}')  # planned again, by chance alike
    assert planned_batch({"checkpointlocation": f"file://{tmp_path}"}) == found
    (folder / "10").write_text('v1\n{"batchTimestampMs":3}\n{"t":{"0":21}}')
    other = planned_batch(options)
    assert isinstance(other, PlannedBatch)
    assert other.digest != found.digest


@pytest.mark.parametrize(
    "again",
    [
        '{"u":{"10":7,"2":5},"t":{"0":20}}\n{"v":{"0":1}}',
        '{"t": {"0": 20}, "u": {"2": 5, "10": 7}}\n{"v": {"0": 1}}',
    ],
)
def test_source_offsets_are_equal_in_any_order_and_spacing(tmp_path: Path, again: str) -> None:
    """Spark's own connector and this one share checkpoints, and write their JSON in other ways."""
    (tmp_path / "offsets").mkdir()
    found = []
    for offsets in ('{"t":{"0":20},"u":{"2":5,"10":7}}\n{"v":{"0":1}}', again):
        (tmp_path / "offsets/3").write_text('v1\n{"batchTimestampMs":1}\n' + offsets)
        found.append(planned_batch({"checkpointLocation": str(tmp_path)}))
    assert found[0] == found[1] is not None


def test_source_offsets_of_both_versions_of_the_log_are_equal(tmp_path: Path) -> None:
    """Version 2 names the sources, in the order of a hash table."""
    (tmp_path / "offsets").mkdir()
    entries = [
        ("v1", '{"t":{"0":20}}', '{"u":{"2":5}}', '{"v":{"0":1}}'),
        ("v2", '2:{"v":{"0":1}}', '0:{"t":{"0":20}}', '1:{"u":{"2":5}}'),
        ("v2", 'c:{"v":{"0":1}}', 'a:{"t": {"0": 20}}', 'b:{"u":{"2":5}}'),
    ]
    found = []
    for version, *sources in entries:
        (tmp_path / "offsets/3").write_text("\n".join([version, '{"batchTimestampMs":1}', *sources]))
        found.append(planned_batch({"checkpointLocation": str(tmp_path)}))
    assert found[0] == found[1] == found[2] is not None


def test_ten_sources_of_version_2_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    offsets = [json.dumps({f"t{number}": {"0": 1}}) for number in range(11)]
    found = []
    for version, lines in (("v1", offsets), ("v2", [f"{n}:{one}" for n, one in enumerate(offsets)][::-1])):
        (tmp_path / "offsets/3").write_text("\n".join([version, "{}", *lines]))
        found.append(planned_batch({"checkpointLocation": str(tmp_path)}))
    assert found[0] == found[1] is not None


@attrs.define
class Task:
    """The part of Spark's TaskContext that the sink reads."""

    properties: dict[str, str]

    def getLocalProperty(self, name: str) -> str | None:
        return self.properties.get(name)


def test_source_offsets_count_only_for_the_batch_that_they_were_planned_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The log of offsets can be behind, as with asynchronous progress tracking."""
    properties = {context.QUERY_ID: "q", context.BATCH_ID: "7", context.RUN_ID: "run"}
    monkeypatch.setattr(context, "_context", lambda: Task(properties))
    assert context.stream_epoch(PlannedBatch(7, "offsets")) == Epoch("q", "run", 7, "offsets")
    for planned in (PlannedBatch(6, "offsets"), PlannedBatch(8, "offsets"), None):
        assert context.stream_epoch(planned) == Epoch("q", "run", 7)


@pytest.mark.parametrize("location", ["hdfs://host/q", "s3a://bucket/q", "/nowhere/at/all", ""])
def test_source_offsets_of_other_file_systems_are_unknown(location: str) -> None:
    assert planned_batch({"checkpointLocation": location}) is None
    assert planned_batch({}) is None


@pytest.mark.parametrize(
    "offsets", ['{"logOffset":1}', "17", "-", "{}", '{"t":{"0":20}}\n{"logOffset":1}', '{"t":{"0":20}}\n-']
)
def test_source_offsets_that_do_not_name_records_are_unknown(tmp_path: Path, offsets: str) -> None:
    """The file source numbers its batches: after a rollback, batch 1 has the same offset and other files."""
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets/1").write_text('v1\n{"batchTimestampMs":1}\n' + offsets)
    assert planned_batch({"checkpointLocation": str(tmp_path)}) is None


@pytest.mark.parametrize(
    "entry",
    [
        "v2\n{}\n0:-",
        'v2\n{}\n0:{"t":{"0":20}}\n1:-',
        'v2\n{}\n{"t"}',
        'v2\n{}\n0:{"logOffset":1}',
        'v3\n{}\n{"t":{"0":20}}',
        "v2\n{}",
        "v1",
        "",
    ],
)
def test_source_offsets_of_an_entry_that_cannot_be_read_are_unknown(tmp_path: Path, entry: str) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets/1").write_text(entry)
    assert planned_batch({"checkpointLocation": str(tmp_path)}) is None


def decided(tasks: int) -> LedgerState:
    """A decision as a query writes it; ids and digests differ in each task."""
    name = "pykafka2-spark/0b6c2f4e-8d55-4f0e-9d3c-1f6f1d2c3b4a/117"
    transactions = tuple(
        OpenTransaction(one, TransactionHandle(f"{name}/{one}", 700_000 + one, one % 3, 2), 10**7 + 2 * one)
        for one in range(tasks)
    )
    counts = tuple(TaskRows(one, 1000 + one * 7919 % 997, hash((one, "x")) % 2**64) for one in range(tasks))
    return (
        LedgerState("0b6c2f4e-8d55-4f0e-9d3c-1f6f1d2c3b4a")
        .claimed("run", 0)
        .decided(0, BatchIdentity("0123456789abcdef", tasks, counts), transactions)
    )


@pytest.mark.parametrize("tasks", [2, MOST_TASKS])
def test_decision_of_the_most_tasks_fits_into_one_record_of_default_size(tasks: int) -> None:
    state = decided(tasks)
    record = to_bytes(state)
    assert len(record) < 1_000_000
    assert from_bytes(record) == state


def test_record_of_format_1_is_read() -> None:
    state = attrs.evolve(decided(2), source=None, rows=None)
    fields = attrs.asdict(state, recurse=True)
    del fields["source"], fields["rows"]
    record = json.dumps({"format": 1, **fields, "phase": state.phase.value}).encode()
    assert from_bytes(record) == state


@pytest.mark.parametrize("record", [b"{}", b'{"format": 9}', b"\x00\x01", b""])
def test_record_of_an_unknown_format_is_refused(record: bytes) -> None:
    with pytest.raises(ExactlyOnceError, match="no other use"):
        from_bytes(record)


@pytest.mark.parametrize("delivery", [EXACTLY_ONCE, PER_TASK])
def test_task_above_the_limit_is_refused_before_anything_is_sent(delivery: str) -> None:
    run = World("localhost:1", "t").run(delivery=delivery)
    with pytest.raises(ConfigurationError, match=f"more than {MOST_TASKS} tasks"):
        write_epoch(run.options, run.epoch(0), rows(0, 0), TaskPlace(MOST_TASKS, 0, False))


@pytest.mark.slow
def test_marker_at_the_offset_of_another_task_batch_or_sink_is_none(world: World) -> None:
    ledger = Cluster(world.options(), world.query).ledger
    ledger.ensure()
    other = Cluster(world.options(ledgerTopic=f"ledger-{world.query}"), "other").ledger
    with KafkaProducer(bootstrap_servers=world.servers, transactional_id=f"id-{world.query}") as producer:
        producer.init_transactions()
        with producer.transaction():
            mine, theirs = Marker(4, TaskRows(1, 2, 3), "s"), Marker(4, TaskRows(1, 9))
            offset = ledger.send_marker(producer, mine).result(30).offset
            offset_of_theirs = other.send_marker(producer, theirs).result(30).offset
    assert ledger.committed_markers(4, {offset: 1}) == {1: mine}
    assert ledger.committed_markers(4, {offset: 1, offset_of_theirs: 2}) == {1: mine}
    assert ledger.committed_markers(4, {offset_of_theirs: 1}) == {}
    assert ledger.committed_markers(4, {offset: 0}) == {}
    assert ledger.committed_markers(5, {offset: 1}) == {}
    assert ledger.committed_markers(4, {}) == {}


def test_phase_of_a_batch_without_rows_is_done() -> None:
    state = LedgerState("q").claimed("run", 0).done(0, BatchIdentity(None, 2, ()), 0)
    assert (state.phase, state.rows) == (Phase.DONE, ())
