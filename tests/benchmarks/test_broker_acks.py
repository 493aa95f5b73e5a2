"""The benchmark of acks=all on one connection still runs, and its two processes understand each other."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from benchmarks.acks_clients import queued
from benchmarks.broker_acks import Runner, Setting, rejected_remedy


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """The benchmark silences our logger, for a process of its own; here other tests read it."""
    logger = logging.getLogger("pykafka2")
    before = logger.level
    yield
    logger.setLevel(before)


@pytest.mark.gate
@pytest.mark.slow
def test_one_cell_of_the_table() -> None:
    runner = Runner(seconds=0.1, rounds=1)
    result = runner.run(Setting("pykafka2", "pipelined", rtt=0.001, in_flight=3))
    assert result.rate > 0
    assert result.client.failed == 0
    assert 1 <= result.client.in_flight_max <= 3
    assert 1 <= result.broker["in_flight_max"] <= 3
    # Its twin in the other mode ran right after it.
    serial = runner.results[Setting("pykafka2", "serial", rtt=0.001, in_flight=3)]
    assert serial.broker["in_flight_max"] == 1


@pytest.mark.gate
@pytest.mark.slow
def test_a_hundred_at_once_and_leaders_where_they_are_wanted() -> None:
    runner = Runner(seconds=0.1, rounds=1)
    setting = Setting("pykafka2", "serial", rtt=0.0, partitions=4, leaders=1, in_flight=20)
    with runner.cluster(setting) as cluster:
        times = queued("pykafka2", runner.load(setting, cluster), 20)
        told = cluster.metrics()
    assert len(times) == 20
    # One broker led all four partitions, so it saw every produce; each carried up to four of them.
    assert 5 <= told["requests"] <= 21


@pytest.mark.gate
@pytest.mark.slow
def test_the_rejected_remedy_has_its_four_rows_from_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    rejected_remedy(Runner(seconds=0.1, rounds=1), "pykafka2", 1)
    rows = [line for line in capsys.readouterr().out.splitlines() if line.endswith("x acks=1")]
    assert [row.split(" MB/s")[0].rsplit(maxsplit=1)[0].strip() for row in rows] == [
        "acks=-1, serial",
        "acks=-1, serial, 8 clients",
        "acks=-1, pipelined, 200 in flight",
        "acks=1, serial",
    ]
