"""Run a query of DuckDB over topics. A table in the query is the topic of that name.

The tables have the columns topic, partition, offset, timestamp, key, value and headers. Keys and values are
text; --value json makes the value a struct, such as value.amount, and --value bytes leaves it as it is. The
query reads the topics up to their present ends, batch by batch. --offset and --until are those of `consume`.

Needs the packages duckdb, pyarrow and numpy: pip install 'pykafka2[tables]' duckdb

examples:
  pykafka2 sql 'select partition, count(*) from orders group by 1 order by 1'
  pykafka2 sql --value json 'select value.name, sum(value.amount) from orders group by 1'
  pykafka2 sql --offset @-1h "select * from \\"web-logs\\" where value like '%error%'" --json
  pykafka2 sql 'select key, value from orders' --to orders.parquet
"""

from __future__ import annotations

import argparse
import re
from typing import Any

from pykafka2.cli.common import connection
from pykafka2.cli.common import output as outputs
from pykafka2.cli.common.exits import EXIT_FAILED, EXIT_OK
from pykafka2.cli.common.output import Output
from pykafka2.cli.common.parsing import Parser, UsageError
from pykafka2.cli.common.positions import LEGAL_OFFSET, LEGAL_UNTIL, offset, until
from pykafka2.cli.records.export import SUFFIX, scan_of

SUMMARY = "run a query of DuckDB over topics"
UNKNOWN_TABLE = re.compile(r"Table with name (.+?) does not exist")
ROWS_PER_FETCH = 1000
FORMATS = ("text", "json", "bytes")


def configure(parser: Parser) -> None:
    parser.add_argument("query", metavar="QUERY", help="the query; a name with a dash needs double quotes")
    parser.add_argument(
        "-o", "--offset", type=offset, metavar="POSITION", help=f"where to start: {LEGAL_OFFSET} (earliest)"
    )
    parser.add_argument(
        "-u", "--until", type=until, metavar="POSITION", help=f"where to end: {LEGAL_UNTIL} (end)"
    )
    for name in ("key", "value"):
        parser.add_argument(f"--{name}", choices=FORMATS, default="text", help=f"the type of {name}s (text)")
    parser.add_argument("--to", metavar="FILE", help=f"write the result to a file ({SUFFIX})")
    parser.add_argument(
        "--isolation-level",
        choices=("read_committed", "read_uncommitted"),
        help="whether records of open and aborted transactions are read (read_uncommitted)",
    )
    connection.add_options(parser)
    outputs.add_options(parser)


def run(arguments: argparse.Namespace, output: Output) -> int:
    if arguments.to is not None and not arguments.to.endswith(SUFFIX):
        raise UsageError(f"--to {arguments.to}: the name of the file must end with {SUFFIX}")
    try:
        import duckdb
        import pyarrow  # noqa: F401
    except ImportError as error:
        output.error(f"sql needs duckdb and pyarrow ({error}): pip install 'pykafka2[tables]' duckdb")
        return EXIT_FAILED
    with duckdb.connect() as database:
        try:
            types = [one.type.name for one in database.extract_statements(arguments.query)]
            if types != ["SELECT"]:
                raise UsageError(f"QUERY must be a single select, not {' and '.join(types) or 'empty'}")
            relation = _bound(database, arguments)
            if arguments.to is not None:
                relation.write_parquet(arguments.to)
                return EXIT_OK
            names = relation.columns
            output.table(names, _rows(database.execute(arguments.query)), can_be_cut=names)
        except duckdb.Error as error:
            output.error(str(error))
            return EXIT_FAILED
    return EXIT_OK


def _bound(database: Any, arguments: argparse.Namespace) -> Any:
    """Return the query with its topics as tables; DuckDB names a table that is missing."""
    import duckdb

    key, value = (None if one == "bytes" else one for one in (arguments.key, arguments.value))
    known: set[str] = set()
    while True:
        try:
            return database.sql(arguments.query)
        except duckdb.CatalogException as error:
            found = UNKNOWN_TABLE.search(str(error))
            if found is None or found[1] in known:
                raise
            known.add(found[1])
            database.register(found[1], scan_of(arguments, [found[1]], key=key, value=value))


def _rows(result: Any) -> Any:
    while rows := result.fetchmany(ROWS_PER_FETCH):
        for row in rows:
            yield [_shown(cell) for cell in row]


def _shown(cell: Any) -> Any:
    """Return a value that tables and JSON have."""
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "backslashreplace")
    if isinstance(cell, dict):
        return {str(name): _shown(one) for name, one in cell.items()}
    if isinstance(cell, list | tuple):
        return [_shown(one) for one in cell]
    if hasattr(cell, "isoformat"):
        return cell.isoformat()
    return cell if isinstance(cell, str | int | float | bool | None) else str(cell)
