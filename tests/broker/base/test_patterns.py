"""Patterns of clients: the syntax that RE2/J 1.8 accepts, and matching in few steps."""

from __future__ import annotations

import re
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka2.broker.base.patterns import MAX_STEPS, Steps, compile_pattern
from pykafka2.errors import InvalidRegularExpression
from tests.gate import examples

RANDOM = Random(1)
NAMES = ["t" + "".join(RANDOM.choices("orders.EU-_012", k=249)) for _ in range(40)]


def matching(pattern: str, names: list[str], steps: Steps | None = None) -> list[str]:
    compiled = compile_pattern(pattern, steps)
    return [name for name in names if compiled.fullmatch(name)]


@pytest.mark.parametrize(
    ("pattern", "matches", "others"),
    [
        ("orders", ["orders"], ["orders-eu"]),
        ("orders-.*", ["orders-", "orders-eu"], ["refunds"]),
        ("(orders|refunds)(-[a-z]+)?", ["orders", "refunds-eu"], ["orders-1"]),
        (".*-eu-.*-v[0-9]{1,3}", ["a-eu-b-v12"], ["a-eu-b-v", "a-eu-b-v1234"]),
        ("(?i:ORDERS)", ["Orders"], ["refunds"]),
        ("a(?i)b(?-i)c", ["aBc"], ["Abc", "abC"]),
        ("((?i)a)b|(?i:c)d", ["Ab", "Cd"], ["AB", "CD"]),
        (r"\w+\.\d+", ["topic.7"], ["topic", "töpic.7"]),
        (r"\S\s\D\W", ["a b-"], ["a b1"]),
        ("[^.]+", ["orders", "a\nb"], ["a.b"]),
        ("(ab){2}", ["abab"], ["ab", "ababab"]),
        ("(ab){2,}", ["abab", "ababab"], ["ab"]),
        ("(ab)*", ["", "ababab"], ["aba"]),
        ("^orders$", ["orders"], ["order", "orders\n"]),
        ("(?m)a$.^b", [], ["a\nb"]),
        ("(?ms)a$.^b", ["a\nb"], ["ab"]),
        (r"\Aa\b.\bb\z", ["a-b"], ["aab"]),
        (r"a\Ba", ["aa"], ["a-a"]),
        (r"a\B|-\B", ["-"], ["a"]),
        ("[[a]b", ["ab", "[b"], ["b"]),
        ("[]a]", ["]", "a"], ["b"]),
        (r"[a-]|[\d-z]", ["a", "-", "5", "z"], ["b"]),
        ("[[:alpha:]]+[[:^digit:]]", ["a-"], ["1-", "a1"]),
        (r"\s", [*"\t\n\f\r "], ["\v"]),
        ("[[:space:]]", [*"\t\n\v\f\r "], ["a"]),
        (r"\pL\P{Lu}\p{^N}", ["éaa"], ["1aa", "aAa", "aa1"]),
        (r"\Q.*\E+", [".*", ".**"], ["a"]),
        (r"\x41\x{e9}\101\t", ["AéA\t"], ["A"]),
        (r"\1011", ["A1"], ["A"]),
        ("(?P<a>x)(?<b>y)", ["xy"], ["x"]),
        ("a{,2}", ["a{,2}"], ["aa"]),
        ("a{02}", ["a{02}"], ["aa"]),
        ("(a)" * 101, ["a" * 101], ["a"]),
        ("a??b*?c+?", ["c", "abbcc"], ["ab"]),
        ("^*a", ["a"], ["^a"]),
        ("|a|", ["", "a"], ["aa"]),
        ("", [""], ["a"]),
    ],
)
def test_patterns_match_as_in_re2(pattern: str, matches: list[str], others: list[str]) -> None:
    assert matching(pattern, matches + others) == matches


@pytest.mark.parametrize(
    "pattern",
    [
        "(", ")", "a)", "[", "[a", "[]", "*", "|*", "(*)", "a**", "a*+", "a+?+", "a{2}{3}", "{*", "a{1001}",
        "a{9999999999}", "a{2,1}", "[b-a]", "[[:letter:]]", "\\", r"\1", r"(a)\1", r"\8", r"\Z", r"\C", r"\e",
        r"\x4", r"\x{110000}", r"\p", r"\p{", r"\p{Latin1}", "(?", "(?x)a", "(?-)", "(?i-)a", "(?P<>a)",
        "(?P<a-b>a)", "(?P<a>a)(?P<a>a)", "(?P=a)", "(?P>a)", "(?=a)a", "(?!a)b", "(?<=a)b", "(?<!a)b",
        "(?>a)b", "(?#a)b", "(?(1)a|b)",
    ],
)  # fmt: skip
def test_syntax_that_re2_lacks_is_rejected(pattern: str) -> None:
    with pytest.raises(InvalidRegularExpression, match="not a valid regular expression of RE2"):
        compile_pattern(pattern)


@pytest.mark.parametrize("pattern", ["x" * 1001, "(" * 101 + ")" * 101])
def test_too_long_or_deeply_nested_pattern_is_rejected(pattern: str) -> None:
    with pytest.raises(InvalidRegularExpression):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+",
        "(o|or|r)*c",
        "(o?){100}c",
        "o?" * 40 + "o" * 40,
        ".*a.*b.*c.*d",
        ".*.*.*.*.*.*x",
        "(a|aa)" * 40,
        "((a*)*)*b",
        r"(\b|\B|.)*x",
        r"(?i)[\x00-\x{10ffff}]*x",
    ],
)
def test_patterns_with_catastrophic_backtracking_take_few_steps(pattern: str) -> None:
    steps = Steps()
    assert matching(pattern, NAMES, steps) == []
    assert MAX_STEPS - steps.left < MAX_STEPS / 5


@pytest.mark.parametrize(
    "pattern",
    ["((a{1000}){1000}){1000}", "((){1000}){1000}", "(a|){1000}" * 100, ".*o.{200}", "(.{0,60}){0,60}"],
)
def test_pattern_that_takes_too_many_steps_is_rejected(pattern: str) -> None:
    with pytest.raises(InvalidRegularExpression, match="steps to match"):
        matching(pattern, NAMES)


@pytest.mark.gate
def test_steps_limit_all_patterns_of_a_request_together() -> None:
    steps = Steps()
    for number in range(1_000):
        assert matching(f"{number}.*", NAMES, steps) == []
    with pytest.raises(InvalidRegularExpression, match="steps to match"):
        [matching(f"(o?){{300}}{number}.*", NAMES, steps) for number in range(1_000)]


def test_each_new_character_of_a_text_takes_steps() -> None:
    """It makes a new edge, and a transactional id can have any characters."""
    steps = Steps()
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 1000)))
    assert matching("[^a]*", [text, text], steps) == [text, text]
    assert MAX_STEPS - steps.left > 10 * len(text)


# What RE2 and `re` agree on: not "$" before a final line end, and not \B in an empty text.
PIECES = st.sampled_from(
    [
        *"ab-.1\n",
        "[ab]",
        "[^a]",
        "[0-9-]",
        "[a-b\n]",
        r"\d",
        r"\D",
        r"\w",
        r"\W",
        r"\s",
        r"\b",
        r"\B",
        r"\A",
        "^",
    ]
)
PATTERNS = st.recursive(
    PIECES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "{2}", "{0,2}", "{1,}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
        inner.map(lambda part: f"(?i:{part})"),
        inner.map(lambda part: f"(?s:{part})"),
    ),
    max_leaves=8,
)


@pytest.mark.gate
@settings(max_examples=examples(400))
@given(PATTERNS, st.lists(st.text("abAB-.1\né", min_size=1, max_size=6), min_size=1, max_size=8))
def test_patterns_match_the_same_texts_as_in_python(pattern: str, texts: list[str]) -> None:
    expected = re.compile(pattern, re.ASCII)
    assert matching(pattern, texts) == [text for text in texts if expected.fullmatch(text)]
