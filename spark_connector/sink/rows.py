"""Spark's Arrow batches as arguments of `send_many`, one call for each topic of a batch.

Pure.  Whatever is wrong with a row is found before any row of its batch is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from spark_connector.errors import WrongRow

_ARGUMENTS = {
    "value": "values",
    "key": "keys",
    "headers": "headers",
    "partition": "partitions",
    "timestamp": "timestamps_ms",
}
"""Of `send_many`, by column."""


@attrs.define(frozen=True)
class TopicRows:
    """Rows for one topic: `columns` are keyword arguments of `send_many`, with `values` among them."""

    topic: str
    columns: dict[str, Any]


@attrs.define
class RowSplitter:
    """Splits batches by topic.  `topic` is the option, which wins over the column."""

    _topic: str | None
    _partition_count: Callable[[str], int]
    """How many partitions a topic has; asked for where rows name theirs."""

    def split(self, batch: pa.RecordBatch) -> list[TopicRows]:
        """The rows of each topic, in their order.

        Raises:
            WrongRow: a row has no topic, or a partition, a time or headers that cannot be written.
        """
        if not batch.num_rows:
            return []
        columns = {name.lower(): batch.column(at) for at, name in enumerate(batch.schema.names)}
        if self._topic is None and columns["topic"].null_count:
            _refuse("topic", columns["topic"].is_null(), "is null, and the option topic is not given")
        _check_values(columns)
        given = {argument: columns[name] for name, argument in _ARGUMENTS.items() if name in columns}
        found: list[TopicRows] = []
        for name, mask in self._topics(columns):
            self._check_partitions(name, columns.get("partition"), mask)
            chosen = given if mask is None else {one: column.filter(mask) for one, column in given.items()}
            found.append(TopicRows(name, chosen))
        return found

    # ------------------------------------------------------------------ inside

    def _topics(self, columns: dict[str, Any]) -> Iterator[tuple[str, pa.Array | None]]:
        """Each topic with a mask of its rows; None if all rows are for it."""
        if self._topic is not None:
            yield self._topic, None
            return
        encoded = columns["topic"].dictionary_encode()
        names = encoded.dictionary.to_pylist()
        for number, name in enumerate(names):
            yield name, None if len(names) == 1 else pc.equal(encoded.indices, number)

    def _check_partitions(self, topic: str, partitions: pa.Array | None, mask: pa.Array | None) -> None:
        """Raise WrongRow if one of the topic's rows names a partition that the topic does not have."""
        if partitions is None:
            return
        mine = partitions if mask is None else partitions.filter(mask)
        if mine.null_count == len(mine):
            return
        count = self._partition_count(topic)
        wrong = pc.greater_equal(partitions, count)
        if mask is not None:
            wrong = pc.and_(wrong, mask)
        if pc.any(wrong).as_py():
            _refuse(
                "partition",
                wrong,
                f"is not among the {count} partitions of topic {topic!r} (rows that were read from "
                "a topic have a column partition: leave it out, and the key decides)",
                partitions,
            )


def _check_values(columns: dict[str, Any]) -> None:
    partitions = columns.get("partition")
    if partitions is not None and pc.any(pc.less(partitions, 0)).as_py():
        _refuse("partition", pc.less(partitions, 0), "is negative", partitions)
    times = columns.get("timestamp")
    if times is not None:
        early = pc.less(times.cast(pa.int64()), 0)
        if pc.any(early).as_py():
            _refuse("timestamp", early, "is before 1970, which Kafka cannot say", times)
    headers = columns.get("headers")
    if headers is not None and not pa.types.is_null(headers.type):
        entries = headers.flatten()
        if entries.null_count or entries.field(0).null_count:
            name = entries.type.field(0).name  # as the user spells it
            nameless = [
                row is not None and any(one is None or one[name] is None for one in row)
                for row in headers.to_pylist()
            ]
            if any(nameless):
                _refuse("headers", pa.array(nameless), "has a header without a key")


def _refuse(column: str, wrong: pa.Array, because: str, values: pa.Array | None = None) -> NoReturn:
    row = pc.index(wrong, True).as_py()
    shown = "" if values is None else f" ({values[row].as_py()!r})"
    count = pc.sum(wrong.cast(pa.int64())).as_py()
    more = f"; so it is in {count} of {len(wrong)} rows" if count > 1 else ""
    raise WrongRow(f"row {row} of a batch: {column}{shown} {because}{more}; no row of that batch was sent")
