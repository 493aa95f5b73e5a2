"""The benchmark of acks=all on one connection runs, and its two processes understand each other."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator

import pytest

from benchmarks.acks_clients import queued, window_full, zero_windows
from benchmarks.broker_acks import Runner, Setting, main


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
    runner = Runner(seconds=1.0, rounds=1)  # a busy machine acknowledges nothing within a tenth of that
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
        metrics = cluster.metrics()
    assert len(times) == 20
    # One broker led all four partitions, so it saw every produce; each carried up to four of them.
    assert 5 <= metrics["requests"] <= 21


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "cells"),
    [
        ("times", [4] * 2),
        pytest.param("flow", [5] * 4, marks=pytest.mark.long),
        pytest.param("window", [6] * 2, marks=pytest.mark.long),
    ],
)
def test_short_form_prints_a_row_for_each_mode(
    part: str, cells: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    only = ["--driver", "pykafka2", "--in-flight", "5", "--seconds", "0.1"]
    assert main(["--short", "--part", part, *only]) == 0
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.splitlines()]
    measured = [row for row in rows if {"serial", "pipelined"} & {*row}]
    assert [len(row) for row in measured] == cells
    if part == "times":
        assert all(float(cell) > 0 for row in measured for cell in row[1:])
    elif part == "flow":
        assert all(int(row[-1].rstrip("%")) > 50 for row in measured)


def test_window_that_is_full_shows_in_the_counters() -> None:
    before = zero_windows()
    if before is None or window_full() is None:
        pytest.skip("this system does not count closed windows")
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
        server.accept()[0],
    ):
        client.setblocking(False)
        deadline = time.monotonic() + 30
        while not window_full() or zero_windows() == before:
            try:
                client.send(bytes(10_000))
            except BlockingIOError:
                time.sleep(0.01)
            assert time.monotonic() < deadline, "the receiver reads nothing, so its window closes"
