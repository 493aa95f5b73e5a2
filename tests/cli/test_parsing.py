"""The types of arguments: their ranges, texts that no request can carry, and options that are secrets."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import combinations
from typing import Any

import pytest

from pykafka2.cli.broker.listeners import parsed_listeners, parsed_users
from pykafka2.cli.common.parsing import (
    SUBCOMMANDS,
    Parser,
    partition_count,
    partition_numbers,
    positive,
    rate,
    time_ms,
)
from pykafka2.cli.common.positions import offset, until
from pykafka2.cli.main import VERBS, build_parser, main
from pykafka2.errors import ConfigurationError


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


# ---------------------------------------------------------------------------------------------------
# Options that are typed twice
# ---------------------------------------------------------------------------------------------------

WORDS = "1 2 a=1 b=2 User:a User:b READ WRITE t:0 t:1 1:2 2:1 Empty Ongoing earliest latest 3.9 4.0"
"""Among these each type of argument accepts two."""


def parsers(parser: Parser, *path: str) -> Iterator[tuple[str, Parser]]:
    """The parsers of verbs without actions and of actions, by their words; nothing is required any more."""
    verbs = [action for action in parser._actions if isinstance(action, SUBCOMMANDS)]
    for name, parser_of_name in [pair for action in verbs for pair in action.choices.items()]:
        yield from parsers(parser_of_name, *path, name)
    if not verbs:
        for action in parser._actions:
            action.required = False
            if not action.option_strings:
                action.nargs, action.choices = "*", None
        for group in parser._mutually_exclusive_groups:
            group.required = False
        yield " ".join(path), parser


PARSERS = dict(parsers(build_parser()))


def options_of(parser: Parser) -> list[argparse.Action]:
    """The options that set something; a flag without an opposite can be typed as often as one likes."""
    flags = argparse._StoreTrueAction | argparse._HelpAction
    return [one for one in parser._actions if one.option_strings and not isinstance(one, flags)]


def two_values(action: argparse.Action) -> list[tuple[list[str], Any]]:
    """Two different values that the option accepts, with the words that are typed."""
    names = action.option_strings
    if action.nargs == 0:
        return [([names[0]], None), ([names[-1]], None)]
    found: list[tuple[list[str], Any]] = []
    for text in [*map(str, action.choices or ()), *WORDS.split()]:
        with suppress(argparse.ArgumentTypeError, ValueError):
            value = text if action.type is None else action.type(text)  # type: ignore[operator]
            if value not in [other for _, other in found]:
                found.append(([names[len(found) % len(names)], text], value))
    return found[:2]


def refusal(parser: Parser, words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The usage error; "" if the words can be parsed."""
    with suppress(SystemExit):
        parser.parse_args(words)
    return capsys.readouterr().err


@pytest.mark.parametrize("path", PARSERS)
def test_each_option_typed_twice_adds_up_or_is_refused(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    for action in options_of(PARSERS[path]):
        (first, one), (second, other) = two_values(action)
        refused = refusal(PARSERS[path], [*first, *second], capsys)
        if refused:
            assert f"argument {'/'.join(action.option_strings)}: typed twice" in refused
            continue
        parsed = getattr(PARSERS[path].parse_args([*first, *second]), action.dest)
        added = 2 if isinstance(action, argparse._CountAction) else [one, other]
        assert parsed in (added, [*one, *other] if isinstance(one, list) else added), action


@pytest.mark.parametrize("path", PARSERS)
def test_options_that_set_the_same_value_exclude_each_other(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for one, other in combinations(options_of(PARSERS[path]), 2):
        if one.dest == other.dest:
            words = [word for action in (one, other) for word in two_values(action)[0][0]]
            assert f"cannot be combined with {one.option_strings[0]}" in refusal(PARSERS[path], words, capsys)


@pytest.mark.parametrize("path", PARSERS)
def test_setting_typed_twice_is_refused_without_its_value(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for action in options_of(PARSERS[path]):
        if str(action.metavar).endswith(("=VALUE", "=LEVEL")) and action.dest != "header":
            name = action.option_strings[0]
            words = [name, "a.b=hunter1", name, "b=hunter2", name, "a_b=hunter3"]
            refused = refusal(PARSERS[path], words, capsys)
            assert "a_b is set twice" in refused
            assert "hunter" not in refused.partition("error:")[2]
            assert refusal(PARSERS[path], words[:4], capsys) == ""


def test_the_walk_covers_all_verbs_and_shared_values() -> None:
    assert {path.split()[0] for path in PARSERS} == set(VERBS)
    dests = [action.dest for action in options_of(PARSERS["consume"])]
    assert dests.count("until") == 2  # -u and -e


def test_user_or_advertised_address_typed_twice_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="--user ann: is set twice"):
        parsed_users(["ann:1", "ann:2"])
    with pytest.raises(ConfigurationError, match="A is set twice"):
        parsed_listeners(["A=PLAINTEXT://:0"], 2 * ["A://kafka.test:0"], 1)
