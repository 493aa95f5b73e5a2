"""The tuning curves cover the options that they should, and a smoke run prints and draws one."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.tuning.__main__ import main
from benchmarks.tuning.curve_data import read_curve, read_rows, write_curve
from benchmarks.tuning.curves import CURVES
from benchmarks.tuning.plot import label
from benchmarks.tuning.points import Outcome, median_of
from pykafka2.broker.config.keys import BROKER_KEYS
from pykafka2.consumer.options import CONSUMER_OPTIONS
from pykafka2.producer.options import PRODUCER_OPTIONS

IMAGES = Path(__file__).parents[2] / "docs" / "images" / "tuning"


def test_client_options_of_the_curves_are_valid_in_each_point() -> None:
    for curve in CURVES:
        options = CONSUMER_OPTIONS if curve.workload == "consume" else PRODUCER_OPTIONS
        for value in curve.values:
            options.parse({}, {"bootstrap_servers": "localhost:9092", **curve.client_options(value)})


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
def test_command_prints_a_curve_and_draws_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    can_draw = find_spec("matplotlib") is not None  # of the extra `bench`
    write = ["--write", str(tmp_path)] if can_draw else []
    assert main(["--smoke", "--option", "num.replica.fetchers", *write]) == 0
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
