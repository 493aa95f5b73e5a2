"""The lag of a query, as its progress reports it; no session."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spark_connector import OffsetsBehindLatest, query_lag


def lag(*sources: tuple[str | None, str | None]) -> tuple[OffsetsBehindLatest, ...]:
    """The lag of sources with these ends of a batch and these ends of their topics."""
    progress: Any = SimpleNamespace(
        id="id",
        runId="run",
        name=None,
        batchId=3,
        sources=[SimpleNamespace(endOffset=end, latestOffset=latest) for end, latest in sources],
    )
    return query_lag(progress).sources


def test_lag_counts_over_the_partitions_of_each_source() -> None:
    first = ('{"a": {"0": 4, "1": 4}, "b": {"0": 9}}', '{"a": {"0": 12, "1": 4}, "b": {"0": 10}}')
    second = ('{"c": {"0": 1}}', '{"c": {"0": 1}}')
    assert lag(first, second) == (OffsetsBehindLatest(0, 8, 3.0), OffsetsBehindLatest(0, 0, 0.0))


def test_partition_that_no_batch_has_read_yet_counts_from_its_first_offset() -> None:
    assert lag(('{"a": {"0": 4}}', '{"a": {"0": 4, "1": 6}}')) == (OffsetsBehindLatest(0, 6, 3.0),)


@pytest.mark.parametrize(
    ("end", "latest"),
    [
        ('{"a": {"0": 4}}', None),
        ('{"a": {"0": 4}}', "null"),
        (None, '{"a": {"0": 4}}'),
        ('{"logOffset": 0}', '{"logOffset": 1}'),
        ("17", "18"),
        ("not JSON", '{"a": {"0": 4}}'),
        ('{"a": {"0": "x"}}', '{"a": {"0": 4}}'),
        ("{}", "{}"),
    ],
)
def test_source_without_offsets_of_kafka_has_no_lag(end: str | None, latest: str | None) -> None:
    assert lag((end, latest)) == ()
