"""The benchmark commands that the documentation prints run as printed."""

from __future__ import annotations

import argparse
import re
import runpy
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from benchmarks.side_by_side import command

# Other tests have imported some of the modules that run here as programs.
pytestmark = pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def commands_of(text: str) -> list[str]:
    """Return the modules with their arguments, as one string each; a placeholder N becomes a size."""
    joined = re.sub(r" *\\\n *", " ", text)
    commands = re.findall(r"python -m (benchmarks\.[^`|\n]+?)(?=`|\n| *\|)", joined)
    return [re.sub(r"\bN\b", "262144", found) for found in commands]


PRINTED = sorted({found for page in PAGES for found in commands_of(page.read_text(encoding="utf-8"))})


class Accepted(Exception):
    """The command's parser accepted the arguments."""


def parse_as_printed(monkeypatch: pytest.MonkeyPatch, printed: str) -> None:
    """Run a printed command until it has parsed its arguments.  Raises SystemExit if it rejects them."""
    module, *arguments = shlex.split(printed, comments=True)
    parse = argparse.ArgumentParser.parse_args

    def parse_and_stop(parser: argparse.ArgumentParser, *given: Any, **options: Any) -> None:
        parse(parser, *given, **options)
        raise Accepted

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_and_stop)
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    with pytest.raises(Accepted):
        runpy.run_module(module, run_name="__main__", alter_sys=False)


@pytest.mark.parametrize("printed", PRINTED)
def test_printed_benchmark_command_is_accepted(printed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parse_as_printed(monkeypatch, printed)


def test_commands_are_found_in_text_tables_and_blocks() -> None:
    text = (
        "`python -m benchmarks.aio --rounds N`\n| python -m benchmarks.spark |\npython -m benchmarks.micro\n"
        "python -m benchmarks.tuning \\\n    --write F\n"
    )
    assert commands_of(text) == [
        "benchmarks.aio --rounds 262144",
        "benchmarks.spark",
        "benchmarks.micro",
        "benchmarks.tuning --write F",
    ]
    assert len(PRINTED) > 10


@pytest.mark.parametrize(
    "printed", ["benchmarks.broker_acks --pairs --rounds 5", "benchmarks.spark --kind x"]
)
def test_a_command_with_wrong_arguments_is_found(
    printed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse_as_printed(monkeypatch, printed)
    assert "usage" in capsys.readouterr().err


@pytest.mark.parametrize(
    "printed", ["benchmarks.broker_acks --plot x.svg", "benchmarks.tuning --write build"]
)
def test_a_plot_without_matplotlib_is_refused_before_the_runs(
    printed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module, *arguments = printed.split()
    monkeypatch.setattr(command, "find_spec", lambda name: None if name == "matplotlib" else find_spec(name))
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    with pytest.raises(SystemExit):
        runpy.run_module(module, run_name="__main__", alter_sys=False)
    assert "matplotlib is missing" in capsys.readouterr().err
