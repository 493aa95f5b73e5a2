"""`pykafka2 sql` and `consume --to`: topics as tables and files."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from pykafka2.cli.main import main
from pykafka2.cli.records import sql
from tests.cli.conftest import NewTopicOf

Run = Callable[..., tuple[int, str, str]]
TEN = [(b"k%d" % (number % 3), b'{"id": %d}' % number) for number in range(10)]


@pytest.fixture
def run(servers: str, capfd: pytest.CaptureFixture[str]) -> Run:
    """A function that runs the command: the exit code, and what stdout and stderr show."""

    def call(*words: str) -> tuple[int, str, str]:
        capfd.readouterr()
        try:
            code = main([*words, "-b", servers])
        except SystemExit as ended:
            code = int(ended.code or 0)
        shown = capfd.readouterr()
        return code, shown.out, shown.err

    return call


@pytest.mark.gate
def test_a_query_joins_topics(run: Run, new_topic: NewTopicOf) -> None:
    first, second = new_topic(TEN, 2), new_topic(TEN[:4])
    query = (
        f'select a.key, sum(a.value.id) as total from "{first}" a join "{second}" b using (value) '
        "group by 1 order by 1"
    )
    code, out, err = run("sql", "--value", "json", query)
    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines()] == [
        ["KEY", "TOTAL"],
        ["k0", "3"],
        ["k1", "1"],
        ["k2", "2"],
    ]
    code, out, _ = run("sql", f'select count(*) as n, max(value) as v from "{first}"', "--json", "-o", "+2")
    assert json.loads(out) == {"n": 6, "v": '{"id": 9}'}


def test_examples_of_the_help_are_queries_after_the_quoting_of_a_shell() -> None:
    examples = [line for line in (sql.__doc__ or "").splitlines() if line.startswith("  pykafka2 sql ")]
    assert len(examples) == 4
    for example in examples:
        queries = [word for word in shlex.split(example) if word.startswith("select ")]
        assert len(duckdb.extract_statements(queries[0])) == 1, example


@pytest.mark.gate
def test_a_result_becomes_a_file(run: Run, new_topic: NewTopicOf, tmp_path: Path) -> None:
    topic, path = new_topic(TEN, 2), tmp_path / "result.parquet"
    assert run("sql", f'select key, timestamp from "{topic}" where partition = 1', "--to", str(path))[0] == 0
    assert pq.read_table(path).num_rows == 5


@pytest.mark.gate
def test_records_are_exported(run: Run, new_topic: NewTopicOf, tmp_path: Path) -> None:
    topic, path = new_topic(TEN, 2), tmp_path / "orders.parquet"
    code, out, err = run("consume", topic, "--to", str(path))
    assert (code, out, err) == (0, "", f"wrote 10 records to {path}\n")
    assert duckdb.sql(f"select count(distinct value) from '{path}'").fetchall() == [(10,)]
    assert run("consume", topic, "-o", "-1", "-p", "1", "--to", str(path))[0] == 0
    assert pq.read_table(path)["value"].to_pylist() == [b'{"id": 9}']


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["consume", "t", "--to", "a.csv"], 2, "--to a.csv: the name of the file must end with .parquet"),
        (["consume", "t", "--to", "a.parquet", "-g", "x"], 2, "--to cannot be combined with --group"),
        (["consume", "t", "--to", "a.parquet", "--json"], 2, "--to cannot be combined with --json"),
        (["consume", "nothing", "--to", "a.parquet"], 1, "topic 'nothing' does not exist"),
        (["sql", "select 1 from nothing"], 1, "topic 'nothing' does not exist"),
        (["sql", "selct 1"], 1, "syntax error"),
        (["sql", "create table x (y int)"], 2, "QUERY must be a single select, not CREATE"),
        (["sql", "select 1; select 2"], 2, "not SELECT and SELECT"),
        (["sql", "select 1", "--to", "a.csv"], 2, "must end with .parquet"),
    ],
)
def test_wrong_arguments(run: Run, words: list[str], code: int, message: str) -> None:
    found, _, err = run(*words)
    assert found == code, err
    assert message in err
