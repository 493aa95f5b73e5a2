"""The tuning curves cover the options that they should, and a smoke run prints and draws one."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.tuning.__main__ import main
from benchmarks.tuning.curves import CURVES
from benchmarks.tuning.plot import label
from pykafka2.consumer.options import CONSUMER_OPTIONS
from pykafka2.producer.options import PRODUCER_OPTIONS


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
