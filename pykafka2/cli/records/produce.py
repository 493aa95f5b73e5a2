r"""Send records to a topic: one per line of the files, or of stdin.

A failed record is reported with its line, and the exit code is 1. After Ctrl-C the records that were read are
delivered, for at most ten seconds, and the result is reported.

--json reads one JSON object per line, as `pykafka2 consume --json` prints them: value (or value_base64), key
(or key_base64), headers, partition, timestamp. A value that is an object is sent as JSON. The result is
printed as JSON, too.

With -X transactional.id=ID the input is one transaction: it is committed if every record was delivered, and
aborted otherwise. If the brokers do not respond to the commit, its outcome is unknown, which is reported.

examples:
  pykafka2 produce orders                                type records, one per line; Ctrl-D ends
  pykafka2 produce orders access.log -z zstd             the lines of a file
  pykafka2 produce orders --key-separator : -H source=web < pairs.txt
  pykafka2 produce users --key-separator = --null        a line `ann=` deletes the key ann (a tombstone)
  pykafka2 produce images --whole *.png                  each file is one record
  pykafka2 consume orders --json -e | pykafka2 produce copy --json
  pykafka2 produce load --rate 1000 < lines.txt          1,000 records per second
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import attrs

from pykafka2.cli.common import connection
from pykafka2.cli.common.changes import described
from pykafka2.cli.common.output import NoProgress, Output, is_terminal
from pykafka2.cli.common.parsing import Parser, UsageError, natural, rate
from pykafka2.cli.records.produce_input import Header, Input, JsonReader, LineReader, Rows
from pykafka2.cli.records.record_formats import BadFormat, unescaped
from pykafka2.errors import (
    BufferExhausted,
    IllegalArgument,
    IncompleteSend,
    InvalidRecord,
    InvalidTimestamp,
    KafkaError,
    KafkaTimeoutError,
    MessageTooLarge,
    RecordTooLarge,
)
from pykafka2.text import counted

if TYPE_CHECKING:
    from pykafka2 import BatchMetadata, BulkDelivery, KafkaProducer

SUMMARY = "send records to a topic: lines of stdin or of files"
MOST_SHOWN_FAILURES = 20
SECONDS_AFTER_CTRL_C = 10.0
COMMIT_SECONDS = 60.0
"""How long the commit of a transaction is retried, unless -X max.block.ms is typed."""
PACES_PER_SECOND = 20
OF_ONE_RECORD = (MessageTooLarge, InvalidRecord, InvalidTimestamp)
"""Errors of brokers after which the other records can still be delivered."""
MAX_BLOCK_MS = 10_000
"""A missing topic is reported after this time. A full buffer is waited for in spite of it."""


def configure(parser: Parser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="the topic")
    parser.add_argument(
        "files", type=str, nargs="*", default=[], metavar="FILE", help="files to read; - or none reads stdin"
    )
    parser.add_argument(
        "-K",
        "--key-separator",
        type=str,
        metavar="TEXT",
        help=r"the text between key and value of a line (: or \t)",
    )
    parser.add_argument(
        "-k", "--key", type=str, metavar="KEY", help="the key of records without a key of their own"
    )
    parser.add_argument(
        "-H",
        "--header",
        type=str,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="add this header to each record; can be repeated",
    )
    parser.add_argument("-p", "--partition", type=natural, metavar="N", help="the partition of all records")
    parser.add_argument(
        "-Z", "--null", action="store_true", help="send null for an empty value (a tombstone) or key"
    )
    parser.add_argument(
        "-D",
        "--delimiter",
        type=str,
        metavar="TEXT",
        help=r"the text between records (\n); \0 for find -print0",
    )
    parser.add_argument("--whole", action="store_true", help="each file, or stdin, is one record")
    parser.add_argument(
        "--json", dest="is_json", action="store_true", help="read JSON lines, and print the result as JSON"
    )
    parser.add_argument("--rate", type=rate, metavar="N", help="send at most N records per second")
    parser.add_argument(
        "-z",
        "--compression",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        help="the codec (none)",
    )
    parser.add_argument(
        "-a", "--acks", choices=("all", "-1", "1", "0"), help="how many replicas acknowledge (all)"
    )
    connection.add_options(parser)


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Send all input; return 1 if a record was not delivered."""
    reader, delimiter = _reader(arguments)
    headers = [_header(text) for text in arguments.header]
    inputs = [Input(path) for path in arguments.files or ["-"]]
    if arguments.config == "-" and any(source.is_stdin for source in inputs):
        raise UsageError("--config - cannot be combined with records from stdin; name a FILE")
    names = {"compression_type": arguments.compression, "acks": arguments.acks}
    typed = {name: value for name, value in names.items() if value is not None}
    is_transactional = "transactional_id" in connection.typed_options(arguments.settings)
    client = connection.producer(arguments, typed=typed, max_block_ms=MAX_BLOCK_MS)
    sending = Sending(arguments, output, client, headers, is_transactional)
    try:
        sending.start()
        with _progress(output, inputs) as bar:
            sending.send_all(_all_rows(inputs, reader, delimiter, arguments.whole, bar))
    finally:
        try:
            sending.close()
        finally:
            sending.report()
    return 1 if sending.undelivered or sending.is_stopped else 0


@attrs.define
class Sending:
    """One run: what was read, delivered and reported."""

    arguments: argparse.Namespace
    output: Output
    producer: KafkaProducer[bytes, bytes]
    headers: list[Header]
    is_transactional: bool
    pending: deque[tuple[Rows, BulkDelivery]] = attrs.Factory(deque)
    read: int = 0
    delivered: int = 0
    """Counted on the producer's IO thread."""
    failed: int = 0
    has_started: bool = False
    is_stopped: bool = False
    """Whether sending ended before the input did, or the transaction was not committed."""
    transaction: Literal["open", "ending", "committed", "aborted", "unknown"] | None = None
    """The state of the transaction; `ending` after its commit was requested."""
    started_at: float = attrs.Factory(time.monotonic)
    next_at: float = 0.0

    @property
    def undelivered(self) -> int:
        """The number of records that were read and that are not, or perhaps not, in the topic."""
        return self.read if self.transaction in ("aborted", "unknown") else self.read - self.delivered

    # ------------------------------------------------------------------ the run

    def start(self) -> None:
        """Check topic and partition; begin the transaction."""
        numbers = self._numbers()
        number = self.arguments.partition
        if number is not None and number not in numbers:
            raise UsageError(
                f"--partition {number}: topic {self.arguments.topic!r} has the partitions 0 to {max(numbers)}"
            )
        if self.is_transactional:
            self.producer.init_transactions()
            self.producer.begin_transaction()
            self.transaction = "open"
        self.has_started = True

    def send_all(self, source: Iterator[Rows]) -> None:
        """Send all rows and wait for their outcome. Return also after an error that concerns all records."""
        try:
            for rows in source:
                self._send(rows)
            self.producer.flush()
            self._reap()
            if self.is_transactional:
                self._end_transaction()
        except KeyboardInterrupt:
            self._stop(SECONDS_AFTER_CTRL_C)
            raise
        except KafkaError as error:
            self.output.error(described(error))
            self._stop(None)
        except OSError as error:
            name = error.filename or "input"
            self.output.error(f"{name}: {error.strerror or error}; the rest was not read")
            self._stop(None)

    def report(self) -> None:
        """Print the result; without a failure only to a terminal, or as JSON."""
        if not self.has_started:
            return
        delivered = self.read - self.undelivered
        seconds = time.monotonic() - self.started_at
        if self.output.is_json:
            result: dict[str, Any] = {
                "topic": self.arguments.topic,
                "delivered": delivered,
                "failed": self.failed,
                "not_sent": self.undelivered - self.failed,
                "seconds": round(seconds, 3),
            }
            self.output.json(result | ({"transaction": self.transaction} if self.transaction else {}))
        elif self.undelivered or self.is_stopped or is_terminal(sys.stderr):
            words = [f"{counted(delivered, 'record')} delivered to {self.arguments.topic} in {seconds:.1f} s"]
            if self.failed:
                words.append(f"{self.failed:,} failed")
            if self.undelivered > self.failed:
                words.append(f"{self.undelivered - self.failed:,} read and not delivered")
            if self.transaction == "unknown":
                words.append("the transaction was committed or aborted: its outcome is unknown")
            elif self.transaction is not None:
                words.append(f"the transaction was {self.transaction}")
            self.output.note(", ".join(words))

    def close(self) -> None:
        """Close the producer; what it could not deliver is reported."""
        with suppress(KafkaError):
            self.producer.close(1.0 if self.is_stopped else None)

    def _stop(self, timeout: float | None) -> None:
        """Deliver what was read, and end the transaction: its commit goes on if it was requested."""
        self.is_stopped = True
        is_ending = self.transaction == "ending"
        if self.transaction is not None:
            self.transaction = "unknown"  # until a call below returns
        self._drain(timeout)
        if is_ending:
            with suppress(KafkaError):
                self.producer.commit_transaction(timeout)
                self.transaction = "committed"
        elif self.transaction is not None:
            self._abort()

    def _drain(self, timeout: float | None) -> None:
        with suppress(KafkaError):
            self.producer.flush(timeout)
        with suppress(KafkaError):
            while self.pending:
                self._reap()
                if self.pending and not self.pending[0][1].done():
                    break

    def _end_transaction(self) -> None:
        if self.undelivered:
            self._abort()
            return
        self.transaction = "ending"
        has_limit = "max_block_ms" in connection.typed_options(self.arguments.settings)
        try:
            self.producer.commit_transaction(None if has_limit else COMMIT_SECONDS)
            self.transaction = "committed"
        except KafkaTimeoutError as error:  # it can still be committed
            self.is_stopped, self.transaction = True, "unknown"
            self.output.error(described(error))
        except KafkaError as error:
            self.is_stopped = True
            self.output.error(f"the transaction was not committed: {described(error)}")
            self._abort()

    def _abort(self) -> None:
        self.transaction = "unknown"
        try:
            self.producer.abort_transaction()
            self.transaction = "aborted"
        except KafkaError as error:
            self.output.error(f"the transaction was not aborted: {described(error)}")

    # ------------------------------------------------------------------ records

    def _send(self, rows: Rows) -> None:
        self.read += len(rows) + len(rows.bad)
        for number, reason in rows.bad:
            self._fail(f"{rows.source}:{number}", reason)
        if rows.partitions is not None and self.arguments.partition is None:
            rows = self._in_known_partitions(rows)
        for part in self._paced(rows):
            self._append(part)
            self._reap()

    def _in_known_partitions(self, rows: Rows) -> Rows:
        """Return the rows whose partition exists; the producer would wait for others to be added."""
        numbers = self._numbers()
        known = {None, *numbers}
        missing = [row for row, number in enumerate(rows.partitions or ()) if number not in known]
        for row in missing:
            number = (rows.partitions or ())[row]
            self._fail(
                rows.place(row),
                f"partition {number} does not exist; topic {self.arguments.topic!r} has the partitions 0 to "
                f"{max(numbers)}",
            )
        return rows.take(sorted(set(range(len(rows))) - set(missing))) if missing else rows

    def _paced(self, rows: Rows) -> Iterator[Rows]:
        """Iterate over all rows, with --rate in parts and with waits between them."""
        per_second: float | None = self.arguments.rate
        if per_second is None:
            if len(rows):
                yield rows
            return
        size = max(int(per_second / PACES_PER_SECOND), 1)
        for first in range(0, len(rows), size):
            now = time.monotonic()
            if self.next_at > now:
                time.sleep(self.next_at - now)
            part = rows.take(range(first, min(first + size, len(rows))))
            self.next_at = max(self.next_at, now) + len(part) / per_second
            yield part

    def _append(self, rows: Rows) -> None:
        """Append rows to the producer's buffer; report those that it refuses, and wait while it is full."""
        while len(rows):
            try:
                self.pending.append((rows, self._send_many(rows)))
                return
            except BufferExhausted:
                self._reap()  # raises after a delivery timeout
            except IncompleteSend as error:
                self.pending.append((rows, error.delivery))
                rows = rows.take(error.left)
                if not isinstance(error.__cause__, BufferExhausted):
                    raise
                self._reap()
            except (RecordTooLarge, IllegalArgument) as error:
                if len(rows) == 1:
                    self._fail(rows.place(0), error)
                    return
                middle = len(rows) // 2
                self._append(rows.take(range(middle)))
                rows = rows.take(range(middle, len(rows)))

    def _numbers(self) -> set[int]:
        """Return the partition numbers of the topic, which the producer knows."""
        return self.producer.partitions_for(self.arguments.topic)

    def _send_many(self, rows: Rows) -> BulkDelivery:
        headers: Any = self.headers or None
        if rows.headers is not None:
            headers = [[*self.headers, *own] for own in rows.headers]
        partition = self.arguments.partition
        if (
            partition is None
            and rows.partitions is None
            and rows.has_mixed_keys
            and len(self._numbers()) == 1
        ):
            partition = 0  # otherwise records without a key would be batched, and so ordered, on their own
        return self.producer.send_many(
            self.arguments.topic,
            rows.values,
            keys=rows.keys,
            headers=headers,
            partition=partition,
            partitions=None if partition is not None else rows.partitions,
            timestamps_ms=rows.timestamps_ms,
            on_delivery=self._count,
        )

    def _count(self, metadata: BatchMetadata | None, error: KafkaError | None) -> None:
        if metadata is not None:
            self.delivered += metadata.count

    def _reap(self) -> None:
        """Report failed records of ended deliveries. Raise an error that concerns all records."""
        while self.pending and self.pending[0][1].done():
            rows, delivery = self.pending.popleft()
            for numbers, error in delivery.failures():
                for number in numbers:
                    self._fail(rows.place(number), error)
                if not isinstance(error, OF_ONE_RECORD):
                    raise error

    def _fail(self, place: str, reason: KafkaError | str) -> None:
        self.failed += 1
        if self.failed <= MOST_SHOWN_FAILURES:
            words = reason if isinstance(reason, str) else described(reason)
            self.output.error(f"{place}: {words}")
        elif self.failed == MOST_SHOWN_FAILURES + 1:
            self.output.error("more records failed; only their number is shown")


# ---------------------------------------------------------------------------------------------------
# Arguments and input
# ---------------------------------------------------------------------------------------------------


def _reader(arguments: argparse.Namespace) -> tuple[LineReader | JsonReader, bytes]:
    """Return the reader of lines, and the bytes between them."""
    if arguments.is_json:
        for option in ("key_separator", "delimiter", "null", "whole"):
            if getattr(arguments, option):
                raise UsageError(f"--{option.replace('_', '-')} cannot be combined with --json")
    if arguments.whole and (arguments.key_separator is not None or arguments.delimiter is not None):
        raise UsageError("--whole cannot be combined with --key-separator or --delimiter")
    key = None if arguments.key is None else arguments.key.encode("utf-8", "surrogateescape")
    if arguments.is_json:
        return JsonReader(key), b"\n"
    separator = _text(arguments, "key_separator")
    return LineReader(separator, key, arguments.null), _text(arguments, "delimiter") or b"\n"


def _text(arguments: argparse.Namespace, name: str) -> bytes | None:
    text: str | None = getattr(arguments, name)
    if text is None:
        return None
    option = f"--{name.replace('_', '-')}"
    if not text:
        raise UsageError(f"{option} '': use at least one character")
    try:
        return unescaped(text)
    except BadFormat as error:
        raise UsageError(f"{option} {text}: {error}") from None


def _header(text: str) -> Header:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--header {text}: write name=value, such as -H source=web")
    return name, value.encode("utf-8", "surrogateescape")


def _all_rows(
    inputs: Sequence[Input], reader: LineReader | JsonReader, delimiter: bytes, is_whole: bool, bar: Any
) -> Iterator[Rows]:
    for source in inputs:
        with source:
            if is_whole:
                content = source.whole()
                bar.update(len(content))
                yield reader.rows(source.name, 1, [content])
                continue
            first = 1
            for lines in source.chunks(delimiter):
                bar.update(sum(map(len, lines)) + len(lines) * len(delimiter))
                yield reader.rows(source.name, first, lines)
                first += len(lines)


def _progress(output: Output, inputs: Sequence[Input]) -> Any:
    """Return a bar of the bytes that were read, unless they are typed."""
    if is_terminal(sys.stdin) and inputs[0].is_stdin:
        return NoProgress()
    sizes = [source.size for source in inputs]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    return output.progress(total, "read", "B", unit_scale=True)
