"""`consume --to FILE`: records as a file, through `pykafka2.scan`, and the scans of `sql`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pykafka2.cli.common import connection
from pykafka2.cli.common.exits import EXIT_OK
from pykafka2.cli.common.output import Output
from pykafka2.cli.common.parsing import UsageError
from pykafka2.cli.common.positions import Bounds, Position, partitions_of

if TYPE_CHECKING:
    from pykafka2 import Scan

SUFFIX = ".parquet"
NOT_COMBINED = ("group", "format", "null", "is_json", "grep", "count")
COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
INSTALL = "pip install 'pykafka2[tables]'"


def check_export(arguments: argparse.Namespace) -> None:
    """Raise `UsageError` for options that --to cannot be combined with."""
    if not arguments.to.endswith(SUFFIX):
        raise UsageError(f"--to {arguments.to}: the name of the file must end with {SUFFIX}")
    for name in NOT_COMBINED:
        if getattr(arguments, name) not in (None, False):
            raise UsageError(f"--to cannot be combined with --{'json' if name == 'is_json' else name}")


def export(arguments: argparse.Namespace, output: Output) -> int:
    """Write the records of the topics up to their ends to a Parquet file."""
    try:
        found = scan_of(arguments, arguments.topics, arguments.partition)
        rows = found.to_parquet(arguments.to)
    except ImportError as error:
        output.error(f"--to: {error}")
        return 1
    output.note(f"wrote {rows:,} records to {arguments.to}")
    return EXIT_OK


def scan_of(
    arguments: argparse.Namespace,
    topics: list[str],
    partitions: list[int] | None = None,
    key: str | None = None,
    value: str | None = None,
) -> Scan:
    """Return a scan of the topics between --offset and --until."""
    import pykafka2

    level = arguments.isolation_level
    options: dict[str, Any] = connection.client_options(
        arguments,
        "consumer",
        typed={} if level is None else {"isolation_level": level},
        isolation_level="read_uncommitted",
        allow_auto_create_topics=False,
    )
    with pykafka2.KafkaConsumer(options) as client:
        client.bootstrap(connection.connect_timeout_ms(arguments))
        bounds = Bounds(client, partitions_of(client, topics, partitions))
        bounds.look_up()
        edges: dict[str, Any] = {}
        for name, position, default in (
            ("start", arguments.offset, Position("earliest")),
            ("end", arguments.until, Position("latest")),
        ):
            edges[name] = bounds.resolve(position or default)
            list(bounds.clamp(edges[name]))
    return pykafka2.scan(
        topics, **edges, partitions=partitions, columns=COLUMNS, key=key, value=value, **options
    )
