"""Patterns of clients: what is taken, and that nothing can keep the broker busy."""

from __future__ import annotations

import pytest

from pykafka2.broker.coordinators.consumer.patterns import compile_pattern
from pykafka2.errors import InvalidRegularExpression


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        ("orders", ["orders"], ["orders-eu"]),
        ("orders-.*", ["orders-", "orders-eu"], ["refunds"]),
        ("(orders|refunds)(-[a-z]+)?", ["orders", "refunds-eu"], ["orders-1"]),
        (".*-eu-.*-v[0-9]{1,3}", ["a-eu-b-v12"], ["a-eu-b-v"]),
        ("(?i:ORDERS)", ["Orders"], ["refunds"]),
        (r"\w+\.\d+", ["topic.7"], ["topic"]),
        ("[^.]+", ["orders"], ["a.b"]),
        ("(ab){2}", ["abab"], ["ab"]),
        ("(ab)*", ["", "ababab"], ["aba"]),
        ("^orders$", ["orders"], ["order"]),
        ("[[a]b", ["ab", "[b"], ["b"]),
        ("", [""], ["a"]),
    ],
)
def test_usual_patterns_are_taken(pattern: str, matches: list[str], others: list[str]) -> None:
    compiled = compile_pattern(pattern)
    assert all(compiled.fullmatch(name) for name in matches)
    assert not any(compiled.fullmatch(name) for name in others)


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "[",
        "*",
        "a{9999999999}",
        r"(a)\1",
        "(?=a)a",
        "(?<!a)b",
        "(?>a)b",
        "a*+",
        "(a+)+",
        "(a|b|ab)*c",
        "(a?){100}",
        "a?" * 40 + "a" * 40,
        ".*a.*b.*c.*d",
        "(a|aa)" * 40,
        "x" * 1001,
    ],
)
def test_invalid_or_slow_regex_is_rejected(pattern: str) -> None:
    with pytest.raises(InvalidRegularExpression):
        compile_pattern(pattern)
