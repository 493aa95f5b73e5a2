"""The tuning curves cover the options that they should, and a smoke run prints and draws one."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.tuning import __main__ as command
from benchmarks.tuning import points
from benchmarks.tuning.__main__ import main, running, table
from benchmarks.tuning.curve_data import read_curve, read_rows, write_curve
from benchmarks.tuning.curves import CURVES, PACED_RATE, Curve
from benchmarks.tuning.plot import label, plot
from benchmarks.tuning.points import Moment, Outcome, Point, median_of
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.config.keys import BROKER_KEYS
from pykafka2.consumer.options import CONSUMER_OPTIONS
from pykafka2.producer.options import PRODUCER_OPTIONS

IMAGES = Path(__file__).parents[2] / "docs" / "images" / "tuning"


def test_client_options_of_the_curves_are_valid_in_each_point() -> None:
    for curve in CURVES:
        options = CONSUMER_OPTIONS if curve.workload == "consume" else PRODUCER_OPTIONS
        for value in curve.values:
            options.parse({}, {"bootstrap_servers": "localhost:9092", **curve.client_options(value)})


def test_broker_options_of_the_curves_are_valid_and_set_in_each_point() -> None:
    for curve in CURVES:
        for value in curve.values:
            config, options = curve.broker_config(value), curve.client_options(value)
            BrokerConfig(config)
            own, others = (config, options) if curve.is_broker else (options, config)
            assert own[curve.option] == (None if value == "none" else value)
            assert curve.option not in others


@pytest.mark.parametrize(
    ("option", "first", "last", "count"),
    [
        ("batch_size", 1 << 10, 1 << 20, 6),
        ("fetch_min_bytes", 1, 1 << 20, 6),
        ("max_partition_fetch_bytes", 16 << 10, 8 << 20, 4),
    ],
)
def test_sizes_are_played_from_the_smallest_to_the_largest(
    option: str, first: int, last: int, count: int
) -> None:
    [values] = [curve.values for curve in CURVES if curve.option == option]
    assert (values[0], values[-1], len(values)) == (first, last, count)
    assert [*values] == sorted(values)


def test_outcome_is_per_record_and_in_the_units_of_its_names() -> None:
    began, ended = Moment(10.0, 1.0, 5.0), Moment(12.0, 1.5, 5.25)
    took = [number / 1e3 for number in range(1, 100)]
    found = points._outcome(1000, began, ended, took)
    assert found == Outcome(
        records_per_second=500.0,
        client_cpu_us=500.0,
        p50_ms=pytest.approx(50),
        p99_ms=pytest.approx(99),
        broker_cpu_us=250.0,
    )
    assert points._outcome(1000, began, ended, []).p99_ms == 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_processor_time_of_the_broker_is_that_of_its_process() -> None:
    point = Point("produce", "", os.getpid(), "", "", 0, 0.0, {})
    tick = 2 / os.sysconf("SC_CLK_TCK")
    before = sum(os.times()[:2])
    found = Moment.now(point)
    assert before - tick <= found.broker_cpu <= sum(os.times()[:2]) + tick
    assert before - tick <= found.client_cpu <= sum(os.times()[:2]) + tick


def test_sends_are_paced_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    now, sent_at = 5.0, list[float]()

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(points, "time", SimpleNamespace(perf_counter=lambda: now, sleep=sleep))
    points._paced(lambda: sent_at.append(now), 2.0)
    assert len(sent_at) == 2 * PACED_RATE
    assert now == pytest.approx(7.0)
    for tenth in range(20):
        begin = 5.0 + tenth / 10 - 1e-6
        assert sum(begin <= at < begin + 0.1 for at in sent_at) == PACED_RATE / 10


def outcome_of(number: float) -> Outcome:
    return Outcome(
        records_per_second=number * 1000,
        client_cpu_us=number,
        broker_cpu_us=number / 4,
        p50_ms=number / 10,
        p99_ms=number / 2,
    )


def test_table_has_the_figures_of_each_value() -> None:
    [curve] = [curve for curve in CURVES if curve.option == "batch_size"]
    heading, *rows = table(curve, {1024: outcome_of(2), 65536: outcome_of(4)}).splitlines()
    assert " ".join(heading.split()) == "batch_size records/s p50 ms p99 ms client CPU us broker CPU us"
    assert [row.split() for row in rows] == [
        ["1K", "2,000", "0.20", "1.00", "2.00", "0.50"],
        ["64K", "4,000", "0.40", "2.00", "4.00", "1.00"],
    ]


@pytest.mark.parametrize("is_smoke", [False, True])
def test_option_selects_its_curve_and_write_draws_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_smoke: bool
) -> None:
    played: list[Any] = []
    drawn: list[Any] = []

    def play(curve: Curve, value: Any, records: int, seconds: float) -> Outcome:
        played.append((curve.option, value, records, seconds))
        return outcome_of(value)

    monkeypatch.setattr(command, "play", play)
    monkeypatch.setattr(command, "why_no_plot", lambda: None)
    monkeypatch.setattr(command, "plot", lambda curve, outcomes, path: drawn.append((outcomes, path)))
    assert main(["--option", "linger_ms", "--write", str(tmp_path), *(["--smoke"] if is_smoke else [])]) == 0
    [curve] = [curve for curve in CURVES if curve.option == "linger_ms"]
    amount = (
        (command.SMOKE_RECORDS, command.SMOKE_SECONDS) if is_smoke else (command.RECORDS, command.SECONDS)
    )
    assert played == [("linger_ms", value, *amount) for value in curve.values]
    assert drawn == [({value: outcome_of(value) for value in curve.values}, tmp_path / "linger-ms.svg")]


@pytest.mark.gate
@pytest.mark.slow
def test_drawing_names_its_axes_and_is_the_same_for_the_same_figures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    outcomes = {1024: outcome_of(2), 65536: outcome_of(4)}
    produce, consume = [curve for curve in CURVES if curve.option in ("batch_size", "fetch_min_bytes")]
    drawn = []
    for number, curve in enumerate([produce, produce, consume]):
        path = tmp_path / "new" / f"{number}.svg"
        plot(curve, outcomes, path)
        drawn.append(path.read_text())
    assert drawn[0] == drawn[1]
    for text in (
        "batch_size (bytes; 1K = 1,024)",
        "Latency, send to callback (ms)",
        "CPU time per record (µs)",
        "p50",
        "p99",
        "client",
        "broker",
    ):
        assert f">{text}<" in drawn[0]
    assert ">Latency, send to poll (ms)<" in drawn[2]


@pytest.mark.gate
@pytest.mark.slow
def test_point_of_a_consumer_reads_the_records_of_a_filled_topic() -> None:
    [curve] = [curve for curve in CURVES if curve.option == "fetch_min_bytes"]
    found = command.play(curve, 1, 500, 0.1)
    assert found.records_per_second > 0
    assert 0 < found.p50_ms <= found.p99_ms


@pytest.mark.gate
@pytest.mark.slow
def test_broker_of_a_point_is_terminated_and_one_that_does_not_start_raises() -> None:
    with running({}, 1) as (servers, process):
        assert servers.startswith("127.0.0.1:")
    assert process.returncode is not None
    with pytest.raises(RuntimeError, match="did not start"), running({"no.such.option": 1}, 1):
        pass


def test_labels_are_short() -> None:
    assert [label(value) for value in (1, 5, 1024, 65536, 1 << 20, "zstd")] == [
        "1",
        "5",
        "1K",
        "64K",
        "1M",
        "zstd",
    ]


@pytest.mark.gate
@pytest.mark.slow
def test_command_prints_a_curve_and_draws_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[dict[str, Any], int]] = []

    def spy(config: dict[str, Any], replicas: int) -> Any:
        started.append((config, replicas))
        return running(config, replicas)

    monkeypatch.setattr(command, "running", spy)
    can_draw = find_spec("matplotlib") is not None  # of the extra `bench`
    write = ["--write", str(tmp_path)] if can_draw else []
    assert main(["--smoke", "--option", "num.replica.fetchers", *write]) == 0
    assert started == [({"num.replica.fetchers": count}, 3) for count in (1, 2, 4)]
    assert "num.replica.fetchers" in capsys.readouterr().out
    if can_draw:
        assert (tmp_path / "num-replica-fetchers.svg").read_text().startswith("<?xml")


def test_kept_figures_draw_the_same_curve_again(tmp_path: Path) -> None:
    curve, other = CURVES[0], CURVES[2]
    outcomes = {value: Outcome(500_000.0, 1.5, 2.5, 0.25, 0.125) for value in curve.values}
    write_curve(tmp_path, other, {"none": Outcome(1.0, 2.0, 3.0, 4.0, 5.0)}, "2026-11-26", "abc")
    write_curve(tmp_path, curve, outcomes, "2026-11-26", "abc")
    write_curve(tmp_path, curve, outcomes, "2026-11-27", "def")  # a second run replaces the first
    assert read_curve(tmp_path, curve) == outcomes
    assert read_curve(tmp_path, other) == {"none": Outcome(1.0, 2.0, 3.0, 4.0, 5.0)}
    assert [row["date"] for row in read_rows(tmp_path)] == ["2026-11-26", *["2026-11-27"] * len(outcomes)]


def test_redraw_without_figures_names_the_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--redraw", str(tmp_path), "--option", "linger_ms"]) == 1
    assert "has no figures for linger_ms" in capsys.readouterr().err


def test_images_of_the_guide_have_figures_for_every_point() -> None:
    for curve in CURVES:
        assert list(read_curve(IMAGES, curve)) == list(curve.values), curve.option
        assert (IMAGES / f"{curve.file_name}.svg").exists()


def test_marked_defaults_are_those_of_the_option_tables() -> None:
    for curve in CURVES:
        if curve.is_broker:
            assert str(curve.default) == BROKER_KEYS[curve.option].default
            continue
        options = CONSUMER_OPTIONS if curve.workload == "consume" else PRODUCER_OPTIONS
        bare = options.parse({}, {"bootstrap_servers": "localhost:9092"})
        marked = options.parse(
            {},
            {
                "bootstrap_servers": "localhost:9092",
                curve.option: curve.client_options(curve.default)[curve.option],
            },
        )
        assert marked == bare, curve.option


def test_median_of_rounds_is_taken_of_each_figure() -> None:
    rounds = [
        Outcome(3.0, 1.0, 1.0, 1.0, 1.0),
        Outcome(1.0, 2.0, 1.0, 1.0, 1.0),
        Outcome(2.0, 9.0, 1.0, 1.0, 1.0),
    ]
    assert median_of(rounds) == Outcome(2.0, 2.0, 1.0, 1.0, 1.0)
