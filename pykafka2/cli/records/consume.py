r"""Print the records of topics: from the beginning, then new ones as they arrive, until Ctrl-C.

--offset and --until accept a position in each partition: earliest, latest (or end), an offset N, +N (after
the first offset), -N (before the end), or @TIME. TIME is ISO 8601, milliseconds since the epoch, or a time
before now (-90s, -15m, -2h, -7d). --until is exclusive.

--format has the percent letters of kcat and rpk:
  %t topic   %p partition   %o offset   %k key   %v or %s value   %K, %V or %S their sizes (null: -1)
  %R size of the value as 4 bytes, big-endian, before binary values
  %h headers (name=value,...)   %H number of headers   %T or %d timestamp in ms   %i number of the record
  %% percent sign   \n \t \r \0 \e \\ \xHH   %v{hex}, %k{base64}, %v{json}   %d{iso}, %d{strftime[%F %T]}

With --to FILE.parquet the records up to --until (end) are written to a file, which appears when it is
complete.

With --group the command joins a consumer group: it starts at the committed offsets, and commits the offsets
of the records that it has printed. Without --group it commits nothing.

With --share the command takes records from the queue of a share group, and accepts each one after it was
printed. Records that it has received and not printed are released at the end.

examples:
  pykafka2 consume orders                                follow the topic from its first record
  pykafka2 consume orders --offset -10 --until end       the last ten records of each partition
  pykafka2 consume orders -o @-1h -f '%d{iso} %k: %v\n'  what arrived in the last hour
  pykafka2 consume orders --grep 'error|timeout' -c 5    the first five records that match
  pykafka2 consume orders --json | jq .value             one JSON object per line
  pykafka2 consume orders -o @-1d --to orders.parquet    the last day as a file for polars, DuckDB or Spark
  pykafka2 consume orders payments --group audit         as a member of a group
  pykafka2 consume jobs --share workers -c 1             take one job from a queue
"""

from __future__ import annotations

import argparse
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs

from pykafka2.cli.common import connection
from pykafka2.cli.common.exits import EXIT_OK, code_of
from pykafka2.cli.common.output import Output
from pykafka2.cli.common.parsing import Parser, UsageError, partition_numbers, positive
from pykafka2.cli.common.positions import (
    LEGAL_OFFSET,
    LEGAL_UNTIL,
    Bounds,
    Position,
    offset,
    partitions_of,
    until,
)
from pykafka2.cli.records.printing import (
    DeferredInterrupt,
    WholeWriter,
    buffered_stdout,
    closed_stdout,
    progress_of_records,
)
from pykafka2.cli.records.record_formats import (
    DEFAULT,
    BadFormat,
    Render,
    compile_format,
    json_lines,
    unescaped,
)
from pykafka2.errors import KafkaError

if TYPE_CHECKING:
    from pykafka2 import Columns, KafkaConsumer, TopicPartition

SUMMARY = "print the records of topics"
POLL_MS = 500
RECORDS_PER_POLL = 50_000


def configure(parser: Parser) -> None:
    parser.add_argument("topics", nargs="+", metavar="TOPIC", help="the topics")
    parser.add_argument(
        "-o", "--offset", type=offset, metavar="POSITION", help=f"where to start: {LEGAL_OFFSET} (earliest)"
    )
    parser.add_argument(
        "-u", "--until", type=until, metavar="POSITION", help=f"where to end: {LEGAL_UNTIL} (never)"
    )
    parser.add_argument(
        "-e", dest="until", action="store_const", const=until("end"), help="the same as --until end"
    )
    parser.add_argument("-c", "--count", type=positive, metavar="N", help="end after N printed records")
    parser.add_argument(
        "-p",
        "--partition",
        action="extend",
        type=partition_numbers,
        metavar="N,...",
        help="only these partitions (0,2-5); can be repeated",
    )
    parser.add_argument("-g", "--group", metavar="GROUP", help="read as a member of this consumer group")
    parser.add_argument(
        "--share", metavar="GROUP", help="take records from the queue of this share group, and accept them"
    )
    parser.add_argument(
        "-f",
        "--format",
        type=str,
        metavar="FORMAT",
        help=rf"how to print a record ({DEFAULT.replace('%', '%%')})",
    )
    parser.add_argument(
        "--null", type=str, metavar="TEXT", help="what --format prints for a null key or value (nothing)"
    )
    parser.add_argument(
        "--json", dest="is_json", action="store_true", help="print each record as one JSON object per line"
    )
    parser.add_argument(
        "--grep",
        type=str,
        metavar="REGEX",
        help="only records whose key or value matches this regular expression",
    )
    parser.add_argument(
        "--to", metavar="FILE", help="write the records to this file (.parquet) and end at --until (end)"
    )
    parser.add_argument(
        "--isolation-level",
        choices=("read_committed", "read_uncommitted"),
        help="whether records of open and aborted transactions are printed (read_uncommitted)",
    )
    connection.add_options(parser)


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Print records until an end that was typed, or until Ctrl-C or a closed pipe."""
    if arguments.share is not None:
        from pykafka2.cli.records.share import check_share, consume_shared

        check_share(arguments)
        return consume_shared(arguments, output, _renderer(arguments))
    if arguments.to is not None:
        from pykafka2.cli.records.export import check_export, export

        check_export(arguments)
        return export(arguments, output)
    _check_group(arguments)
    reading = Reading(arguments, output, _renderer(arguments), _pattern(arguments.grep))
    client = connection.consumer(arguments, **_options(arguments))
    try:
        client.bootstrap(connection.connect_timeout_ms(arguments))
        reading.api_timeout = connection.api_timeout(arguments, **_options(arguments))
        if arguments.group is None:
            reading.assign(client)
        else:
            reading.subscribe(client)
        reading.read(client)
    except KeyboardInterrupt as interrupt:  # the usual end, without a message
        with suppress(KafkaError):
            reading.flush(client)
        return code_of(interrupt)
    finally:
        reading.bar.close()
        client.close()
    return EXIT_OK


def _options(arguments: argparse.Namespace) -> dict[str, object]:
    """Return the options that the arguments set, and defaults."""
    typed: dict[str, object] = {"enable_auto_offset_store": False} if arguments.group is not None else {}
    if arguments.group is not None:
        typed["group_id"] = arguments.group
    if arguments.offset is not None:
        typed["auto_offset_reset"] = "latest" if arguments.offset.kind == "latest" else "earliest"
    if arguments.isolation_level is not None:
        typed["isolation_level"] = arguments.isolation_level
    return {"typed": typed, "auto_offset_reset": "earliest", "allow_auto_create_topics": False}


def _check_group(arguments: argparse.Namespace) -> None:
    if arguments.group is None:
        if "group_id" in connection.typed_options(arguments.settings):
            raise UsageError("-X group.id: name the group with --group, which commits its offsets")
        return
    if arguments.partition is not None:
        raise UsageError("--partition cannot be combined with --group, which assigns the partitions")
    if arguments.offset is not None and arguments.offset.kind not in ("earliest", "latest"):
        raise UsageError(
            f"--offset {arguments.offset.text} cannot be combined with --group, which reads from its "
            "committed offsets. Use earliest or latest, for partitions without one"
        )


def _renderer(arguments: argparse.Namespace) -> Render:
    if arguments.is_json:
        if arguments.format is not None:
            raise UsageError(f"--format {arguments.format} cannot be combined with --json")
        return json_lines()
    name = "--null"
    try:
        null = unescaped(arguments.null or "")
        name = "--format"
        return compile_format(DEFAULT if arguments.format is None else arguments.format, null)
    except BadFormat as error:
        raise UsageError(f"{name} {getattr(arguments, name[2:])}: {error}") from None


def _pattern(text: str | None) -> re.Pattern[bytes] | None:
    if text is None:
        return None
    try:
        return re.compile(text.encode("utf-8", "surrogateescape"))
    except re.error as error:
        raise UsageError(f"--grep {text}: not a regular expression of Python: {error}") from None


@attrs.define
class Reading:
    """One run: which partitions still have to be read, and how far."""

    arguments: argparse.Namespace
    output: Output
    render: Render
    pattern: re.Pattern[bytes] | None
    limits: dict[TopicPartition, int] = attrs.Factory(dict)
    """The offset before which each unfinished partition ends, with --until."""
    ends_at_ms: int | None = None
    """With --until and a time in the future: when the limits can be looked up."""
    remaining: int | None = None
    printed: dict[TopicPartition, int] = attrs.Factory(dict)
    """The offsets of a group that were reached by printing and not stored."""
    stored: dict[TopicPartition, int] = attrs.Factory(dict)
    """The offsets of a group that the consumer commits next."""
    quiet_since: float = attrs.Factory(time.monotonic)
    """When the last record came, or the brokers were checked."""
    api_timeout: float = 60.0
    """default_api_timeout_ms of the client, in seconds."""
    bar: Any = None
    interrupt: DeferredInterrupt = attrs.Factory(DeferredInterrupt)
    out: Any = None

    def __attrs_post_init__(self) -> None:
        is_member = self.arguments.group is not None
        self.out = WholeWriter(self.interrupt) if is_member else buffered_stdout()
        self.remaining = self.arguments.count
        self.bar = progress_of_records(self.output, self.remaining)

    # ------------------------------------------------------------------ what to read

    def assign(self, client: KafkaConsumer[bytes, bytes]) -> None:
        """Assign the partitions and seek to their first offsets."""
        partitions = partitions_of(client, self.arguments.topics, self.arguments.partition)
        client.assign(partitions)
        start: Position | None = self.arguments.offset
        is_by_policy = start is None or start.kind in ("earliest", "latest")
        if is_by_policy and self.arguments.until is None:
            return  # auto_offset_reset looks up the offsets
        bounds = Bounds(client, partitions)
        bounds.look_up()
        starts = bounds.resolve(start or Position("earliest"))
        for partition, wanted, limited in bounds.clamp(starts):
            if start is not None and start.kind == "offset":
                self.output.error(
                    f"{_name(partition)}: offset {wanted} is not in the log; reading from {limited}"
                )
        for partition, at in starts.items():
            client.seek(partition, at)
        self._set_limits(bounds, starts)
        client.pause(*(one for one in partitions if self._has_limits and one not in self.limits))

    def subscribe(self, client: KafkaConsumer[bytes, bytes]) -> None:
        """Join the group; look up the ends of all partitions with --until."""
        partitions = partitions_of(client, self.arguments.topics, None)
        client.subscribe(self.arguments.topics)
        if self.arguments.until is not None:
            bounds = Bounds(client, partitions)
            bounds.look_up()
            self._set_limits(bounds, bounds.first)

    def _set_limits(self, bounds: Bounds, starts: dict[TopicPartition, int]) -> None:
        until: Position | None = self.arguments.until
        if until is None:
            return
        if until.kind == "time" and until.number > time.time() * 1000:
            self.ends_at_ms = until.number
            return
        limits = bounds.resolve(until)
        self.limits = {one: limit for one, limit in limits.items() if limit > starts[one]}

    @property
    def _has_limits(self) -> bool:
        return self.arguments.until is not None and self.ends_at_ms is None

    # ------------------------------------------------------------------ reading

    def read(self, client: KafkaConsumer[bytes, bytes]) -> None:
        """Print records until the end."""
        is_closed = closed_stdout()
        records = RECORDS_PER_POLL
        while not (self._has_limits and not self.limits):
            if self.remaining is not None and self.pattern is None:
                records = min(self.remaining, RECORDS_PER_POLL)
            polled = client.poll_columns(self._poll_ms(), max_records=records)
            for partition, columns in polled.items():
                self._print(partition, columns)
                if self.remaining == 0:
                    break
            if self.arguments.group is not None and self.remaining != 0:
                self._reach_positions(client)
            if polled or self.printed:
                self.flush(client)
            if polled:
                self.quiet_since = time.monotonic()
            elif self.remaining is not None or self.arguments.until is not None:
                self._check_brokers(client)
            if is_closed():  # also while no record matches --grep
                raise BrokenPipeError
            if self.remaining == 0:
                return
            if self._has_limits:
                self._finish(client)
            elif self.ends_at_ms is not None and time.time() * 1000 >= self.ends_at_ms:
                self._reach_time(client)

    def _check_brokers(self, client: KafkaConsumer[bytes, bytes]) -> None:
        """Raise default.api.timeout.ms after the last record if a broker or topic that is needed is lost.

        poll() waits for all of them, as a command without an end does.
        """
        limit = self.api_timeout
        attempt_ms = min(limit * 500, connection.CONNECT_TIMEOUT_MS)  # ends with the limit
        if time.monotonic() - self.quiet_since < limit - attempt_ms / 1000:
            return
        client.bootstrap(attempt_ms, refresh=True)
        partitions = partitions_of(client, self.arguments.topics, self.arguments.partition)
        if self.arguments.group is not None:
            client.committed(partitions, timeout_ms=attempt_ms)  # from the coordinator
        unread = [one for one in client.assignment() if not self._has_limits or one in self.limits]
        client.end_offsets(unread, attempt_ms)
        self.quiet_since = time.monotonic()

    def _poll_ms(self) -> float:
        """Return the timeout of a poll, which ends at the time of --until: later records are not printed."""
        left = POLL_MS if self.ends_at_ms is None else self.ends_at_ms - time.time() * 1000
        return max(min(left, POLL_MS), 1.0)

    def flush(self, client: KafkaConsumer[bytes, bytes]) -> None:
        """Write what was printed; then its offsets can be committed."""
        self.out.flush()
        if self.printed:
            client.store_offsets(offsets=self.printed)
            self.stored |= self.printed
            self.printed = {}

    def _print(self, partition: TopicPartition, columns: Columns) -> None:
        if self._has_limits:
            limit = self.limits.get(partition)
            if limit is None:
                return  # a partition of the group that is read to its end
            if columns.last_offset >= limit:
                columns = columns.before(limit)
        if not len(columns):
            return
        shown: Any = columns
        if self.pattern is not None:
            columns, shown = self._matches(self.pattern, columns)
        elif self.remaining is not None:
            columns = shown = columns.head(self.remaining)
        if self.arguments.group is None:
            self._write(shown, partition)
            return
        with self.interrupt:  # else a batch that was printed could be left uncommitted, and printed again
            self._write(shown, partition)
            self.printed[partition] = columns.last_offset + 1

    def _reach_positions(self, client: KafkaConsumer[bytes, bytes]) -> None:
        """Let the positions be stored, which are also behind control records, at most up to --until.

        All records before the positions were printed.
        """
        for partition in client.assignment():
            is_unread = self._has_limits and partition not in self.limits
            if is_unread or client.lag(partition) is None:  # the position is unknown
                continue
            position = client.position(partition)
            reached = min(position, self.limits.get(partition, position))
            if reached != self.stored.get(partition):
                self.printed[partition] = reached

    def _write(self, columns: Columns, partition: TopicPartition) -> None:
        if not len(columns):
            return
        self.out.write(self.render(columns, partition.topic, partition.partition))
        if self.remaining is not None:
            self.remaining -= len(columns)
        self.bar.update(len(columns))

    def _matches(self, pattern: re.Pattern[bytes], columns: Columns) -> tuple[Columns, Any]:
        """Return the columns, cut after the last record that --count allows, and the records that match."""
        search = pattern.search
        rows = [
            row
            for row, (key, value) in enumerate(zip(columns.keys, columns.values, strict=True))
            if (value is not None and search(value)) or (key is not None and search(key))
        ]
        if self.remaining is not None and len(rows) >= self.remaining:
            del rows[self.remaining :]
            columns = columns.head(rows[-1] + 1)
        return columns, chosen(columns, rows)

    def _finish(self, client: KafkaConsumer[bytes, bytes]) -> None:
        """Forget the limits that were reached; control records behind the last record count, too."""
        assigned = client.assignment()
        for partition in [one for one in self.limits if one in assigned]:
            if client.position(partition) >= self.limits[partition]:
                del self.limits[partition]
                client.pause(partition)
        if self.arguments.group is not None and assigned and not any(one in self.limits for one in assigned):
            self.limits = {}  # the rest belongs to other members

    def _reach_time(self, client: KafkaConsumer[bytes, bytes]) -> None:
        """Look up the limits of --until @TIME, whose time has come."""
        self.ends_at_ms = None
        assigned = list(client.assignment())
        bounds = Bounds(client, assigned)
        bounds.look_up()
        self._set_limits(bounds, {one: client.position(one) for one in assigned})


def chosen(columns: Columns, rows: list[int]) -> Any:
    """Return some rows of columns, for rendering."""
    return Chosen(columns, rows)


class Chosen:
    """Some rows of `Columns`, with the lists that formats read."""

    def __init__(self, columns: Columns, rows: list[int]) -> None:
        self._columns = columns
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getattr__(self, name: str) -> list[Any]:
        column = getattr(self._columns, name)
        return [column[row] for row in self._rows]


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"
