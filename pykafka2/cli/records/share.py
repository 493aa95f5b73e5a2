"""`consume --share GROUP`: records of a share group, each accepted after it was printed.

Records that were received and not printed are released at the end, also after a Ctrl-C.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pykafka2.cli.common import connection
from pykafka2.cli.common.changes import described
from pykafka2.cli.common.exits import EXIT_OK, code_of
from pykafka2.cli.common.output import Output
from pykafka2.cli.common.parsing import UsageError
from pykafka2.cli.common.positions import partitions_of
from pykafka2.cli.records.printing import DeferredInterrupt, WholeWriter, closed_stdout, progress_of_records
from pykafka2.errors import InvalidRecordState, KafkaError

if TYPE_CHECKING:
    from pykafka2 import KafkaShareConsumer, ShareRecord, TopicPartition

POLL_MS = 500
MAX_RECORDS = 500
NOT_COMBINED = {
    "group": "a group is of one type",
    "offset": "the group has its own offsets; pykafka2 groups reset changes them",
    "until": "a queue has no end; use --count",
    "partition": "the coordinator assigns the partitions",
    "isolation_level": "the option share.isolation.level of the group decides",
    "grep": "it would take the other records from the queue, too",
    "to": "a file gets a part of a topic",
}
"""Options that --share cannot be combined with, and the reasons."""


def check_share(arguments: argparse.Namespace) -> None:
    """Raise `UsageError` for options that --share cannot be combined with."""
    for name, reason in NOT_COMBINED.items():
        if getattr(arguments, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} cannot be combined with --share: {reason}")
    if "group_id" in connection.typed_options(arguments.settings):
        raise UsageError("-X group.id: --share names the group")


def consume_shared(
    arguments: argparse.Namespace, output: Output, render: Callable[[Any, str, int], bytes]
) -> int:
    """Print records until --count, Ctrl-C or a closed pipe."""
    defaults: dict[str, Any] = {}
    if arguments.count is not None:  # else the brokers lock more records than are printed
        defaults = {
            "share_acquire_mode": "record_limit",
            "max_poll_records": min(arguments.count, MAX_RECORDS),
        }
    typed = {"group_id": arguments.share, "share_acknowledgement_mode": "explicit"}
    reading = _Reading(output, render, arguments.count)
    client = connection.share_consumer(arguments, typed=typed, **defaults)
    try:
        with connection.consumer(
            connection.with_settings_of(arguments, "consumer"), allow_auto_create_topics=False
        ) as checking:
            checking.bootstrap(connection.connect_timeout_ms(arguments))
            partitions_of(checking, arguments.topics, None)
        client.subscribe(arguments.topics)
        reading.read(client)
    except KeyboardInterrupt as interrupt:  # the usual end, without a message
        return code_of(interrupt)
    finally:
        reading.bar.close()
        client.close()
    return EXIT_OK


class _Reading:
    """Prints and accepts the records of a consumer."""

    def __init__(self, output: Output, render: Callable[[Any, str, int], bytes], count: int | None) -> None:
        self._output = output
        self._render = render
        self._remaining = count
        self._interrupt = DeferredInterrupt()
        self._out = WholeWriter(self._interrupt)
        self.bar = progress_of_records(output, count)

    def read(self, client: KafkaShareConsumer[bytes, bytes]) -> None:
        client.set_acknowledgement_commit_callback(self._report)
        is_closed = closed_stdout()
        while self._remaining is None or self._remaining > 0:
            limit = MAX_RECORDS if self._remaining is None else min(self._remaining, MAX_RECORDS)
            polled = client.poll(POLL_MS, limit)
            for partition, records in polled.items():
                with self._interrupt:  # else a record that was printed could be released
                    self._print(client, partition, records)
            if polled:
                client.commit_async()
            if is_closed():
                raise BrokenPipeError

    def _print(
        self,
        client: KafkaShareConsumer[bytes, bytes],
        partition: TopicPartition,
        records: Sequence[ShareRecord[bytes, bytes]],
    ) -> None:
        self._out.write(self._render(_Rows(records), *partition))
        for record in records:
            try:
                client.acknowledge(record)
            except InvalidRecordState as error:
                self._report({partition: {record.offset}}, error)
        if self._remaining is not None:
            self._remaining -= len(records)
        self.bar.update(len(records))

    def _report(self, offsets: dict[TopicPartition, set[int]], error: KafkaError | None) -> None:
        """Print which records were printed in vain: the brokers deliver them again."""
        if error is not None:
            for partition, some in offsets.items():
                shown = ", ".join(map(str, sorted(some)[:10]))
                self._output.error(f"{partition}: offset {shown} was not accepted: {described(error)}")


class _Rows:
    """Records with the columns that formats read."""

    def __init__(self, records: Sequence[ShareRecord[bytes, bytes]]) -> None:
        self._records = records
        self.keys = [record.key for record in records]
        self.values = [record.value for record in records]

    def __len__(self) -> int:
        return len(self._records)

    @property
    def offsets(self) -> list[int]:
        return [record.offset for record in self._records]

    @property
    def timestamps(self) -> list[int]:
        return [record.timestamp for record in self._records]

    @property
    def timestamp_types(self) -> list[int]:
        return [record.timestamp_type for record in self._records]

    @property
    def headers(self) -> list[Any]:
        return [record.headers for record in self._records]
