"""The types of arguments: their ranges, texts that no request can carry, and options that are secrets."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import pytest

from pykafka2.cli.common.parsing import Parser, partition_count, partition_numbers, positive, rate, time_ms
from pykafka2.cli.common.positions import offset, until
from pykafka2.cli.main import main


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (time_ms, "99999999999999999999"),
        (time_ms, "9" * 5000),
        (time_ms, "1900-01-01"),
        (time_ms, "0001-01-01"),
        (time_ms, "-99999w"),
        (time_ms, "-" + "9" * 400 + "d"),
        (offset, "@1900-01-01"),
        (offset, "9999999999999999999"),
        (until, "+9999999999999999999"),
        (partition_numbers, "5-2"),
        (partition_numbers, "0-2147483648"),
        (partition_numbers, "0-2147483647"),
        (partition_numbers, "9" * 5000),
        (partition_count, "2147483648"),
        (positive, "9223372036854775808"),
        (rate, "1e300"),
        (rate, "1e-300"),
        (rate, "nan"),
    ],
)
def test_value_out_of_range_is_a_wrong_argument(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        parse(text)


def test_text_that_is_not_unicode_is_a_wrong_argument(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["topics", "describe", "caf\udce9"])
    assert ended.value.code == 2
    assert r"argument TOPIC: 'caf\udce9' is not valid Unicode text" in capsys.readouterr().err


def test_unknown_option_is_reported_without_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["topics", "list", "--sasl-password=hunter2"])
    assert ended.value.code == 2
    shown = capsys.readouterr().err
    assert "unrecognized arguments: --sasl-password" in shown
    assert "hunter2" not in shown


def test_usage_error_shows_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        Parser().parse_args(["\x1b[31mred"])
    assert r"\x1b[31mred" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["consume ../x -e", "produce ../x", "perf consume ../x"])
def test_invalid_topic_name_is_a_wrong_argument(verb: str, servers: str) -> None:
    assert main([*verb.split(), "-b", servers]) == 2
