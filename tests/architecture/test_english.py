"""English as in the Python and Kafka documentation: openings of docstrings, and words of all texts.

No docstring starts with a relative clause; no docstring, comment, message or guide has a banned word, and no
identifier. The names of all test functions and the docstrings of all test modules are checked, too.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCSTRINGS = ("examples", "pykafka2", "spark_connector")
TEXTS = ("CONTRIBUTING.md", "README.md", "docs", "examples", "pykafka2", "spark_connector")
NAMES = ("examples", "pykafka2", "spark_connector")
BANNED = re.compile(
    r"\b(told|untold|telling|asked|asking|nobody|somebody|anybody|everybody|whoever|whom|anew|"
    r"heard|hears|hearing|spoken|looked at|looks at|seen to|sees to|gone on with|stands? in for|"
    r"what is no|that which|good-?byes?)\b",
    re.IGNORECASE,
)
BANNED_IN_NAMES = frozenset(
    {"told", "untold", "given", "asked", "asking", "looked", "heard", "spoken", "goodbye"}
)
ALLOWED: dict[tuple[str, str], str] = {
    ("pykafka2/testing/simulation/checkers.py", "asked_at"): "the public attribute of histories",
    ("pykafka2/testing/simulation/history.py", "asked_at"): "a public attribute",
    ("pykafka2/testing/simulation/history.py", "told_at"): "a public attribute",
    ("pykafka2/consumer/calls/subscribe.py", "asked"): "the default reason is sent to the coordinator",
    ("spark_connector/sink/exactly_once/runner.py", "of_given_up"): "the marker of a failed job",
    ("spark_connector/sink/exactly_once/runner.py", "_find_given_up"): "the marker of a failed job",
    ("spark_connector/sink/exactly_once/transactional_ids.py", "of_given_up"): "the marker of a failed job",
    (
        "spark_connector/sink/exactly_once/transactional_ids.py",
        "GIVEN_UP",
    ): "part of stored transactional ids",
}
"""Legitimate uses by file and word, each with its reason."""
BANNED_IN_TEST_NAMES = re.compile(
    r"(?<=_)(who|whose|whom|what|whoever|whatever|wherever|however|told|untold|tells?|telling|asked|asking|given|"
    r"looked|heard|hears?|hearing|nobody|somebody|anybody|everybody|anew|says?|said|saying|spoken|good_?byes?|"
    r"that_which|goes_on|go_on|gone_on|comes_back|looks_at|sees_to|seen_to|that_is_no)(?=_|$)"
)
OPENING_OF_TEST_NAMES = re.compile(r"test_(where|of|as|nor|so|it|its|they|there|that)_")
ALLOWED_IN_TEST_NAMES = {
    "looked_up": "a coordinator, or an offset, is looked up",
    "tls_not_spoken": "the error class TlsNotSpoken",
}
"""Phrases of test names, each with its reason."""
OPENING = re.compile(r"(Who|Whose|Whom|What|Where|Of|As)\b")
QUOTED_OPENING = re.compile(rf"[\"']\\?\s*{OPENING.pattern}")
TEST_FUNCTION = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)
THIRD_PERSON = re.compile(r'-> .*:\n *"""([A-Z][a-z]*[a-rt-z]s)\b')
"""A function whose docstring starts with a verb such as "Returns", or with a noun of `NOUNS`."""
NOUNS = frozenset(
    {
        "Addresses", "Always", "Bars", "Brokers", "Bytes", "Failures", "Faults", "Ids", "Its", "Limits",
        "Logs", "Options", "Orders", "Partitions", "Passwords", "Producers", "Replicas", "Requests",
        "Rules", "Seconds", "Settings", "This", "Throttles", "Values",
    }
)  # fmt: skip
IMPERATIVE = ("benchmarks", "examples", "pykafka2", "spark_connector")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings_of(source: str) -> Iterator[str]:
    """The docstrings of a module, of its classes and of its functions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED):
            docstring = ast.get_docstring(node)
            if docstring:
                yield docstring


@pytest.mark.parametrize("folder", DOCSTRINGS)
def test_docstrings_start_with_a_verb_or_a_noun(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {docstring.splitlines()[0]}"
        for path in files_of(folder, ".py")
        if QUOTED_OPENING.search(
            source := path.read_text(encoding="utf-8")
        )  # to parse all files takes seconds
        for docstring in docstrings_of(source)
        if OPENING.match(docstring)
    ]
    assert found == []


@pytest.mark.parametrize("folder", IMPERATIVE)
def test_docstrings_of_functions_start_in_the_imperative(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {verb}"
        for path in files_of(folder, ".py")
        for verb in THIRD_PERSON.findall(path.read_text(encoding="utf-8"))
        if verb not in NOUNS
    ]
    assert found == []


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """Returns the comments and strings of a Python file, or the lines of any other file, by line number."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from enumerate(source.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT):
            yield token.start[0], token.string


def names_of(path: Path) -> Iterator[tuple[int, str]]:
    """Returns the identifiers of a Python file, by line number."""
    source = path.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string


def banned_words(path: Path) -> list[str]:
    """Returns place and word of each banned word in texts that is not allowed."""
    place = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name
    if not BANNED.search(path.read_text(encoding="utf-8")):
        return []  # to tokenize all files takes seconds
    return [
        f"{place}:{line}: {word}"
        for line, text in texts_of(path)
        for word in BANNED.findall(text)
        if (place, word.lower()) not in ALLOWED
    ]


def banned_names(path: Path) -> list[str]:
    """Returns place and name of each identifier with a banned word that is not allowed."""
    place = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name
    if not any(word in path.read_text(encoding="utf-8").lower() for word in BANNED_IN_NAMES):
        return []
    return [
        f"{place}:{line}: {name}"
        for line, name in names_of(path)
        if BANNED_IN_NAMES & set(name.lower().split("_")) and (place, name) not in ALLOWED
    ]


def files_of(folder: str, *suffixes: str) -> list[Path]:
    root = ROOT / folder
    files = [root] if root.is_file() else sorted(path for path in root.rglob("*") if path.suffix in suffixes)
    assert files, folder
    return files


@pytest.mark.parametrize("folder", TEXTS)
def test_texts_have_no_banned_word(folder: str) -> None:
    assert [found for path in files_of(folder, ".py", ".md") for found in banned_words(path)] == []


@pytest.mark.parametrize("folder", NAMES)
def test_names_have_no_banned_word(folder: str) -> None:
    assert [found for path in files_of(folder, ".py") for found in banned_names(path)] == []


def test_every_exception_is_used_and_has_a_reason() -> None:
    for (place, word), reason in ALLOWED.items():
        path = ROOT / place
        words = {name for _, name in names_of(path)} if path.suffix == ".py" else set()
        words |= {found.lower() for _, text in texts_of(path) for found in BANNED.findall(text)}
        assert word in words, f"{place} does not use {word!r} any more: remove the exception"
        assert reason


def test_a_banned_word_is_found_in_a_text_and_in_a_name(tmp_path: Path) -> None:
    path = tmp_path / "example.py"
    path.write_text(
        '"""Nobody is told."""\n\ntold = 1  # asked\nprint("Connection closed", told)\n', encoding="utf-8"
    )
    assert banned_words(path) == ["example.py:1: Nobody", "example.py:1: told", "example.py:3: asked"]
    assert banned_names(path) == ["example.py:3: told", "example.py:4: told"]


def test_a_relative_clause_is_found() -> None:
    source = '"""What it does."""\n\ndef work() -> None:\n    """Return nothing."""\n'
    assert [bool(OPENING.match(one)) for one in docstrings_of(source)] == [True, False]
    assert QUOTED_OPENING.search(source)
    assert QUOTED_OPENING.search('"""\\\n    Who waits."""')
    assert not QUOTED_OPENING.search('"""Return nothing."""')


def names_of_tests(path: Path) -> Iterator[str]:
    """Returns the names of the test functions of a file, and of those in its strings."""
    for match in TEST_FUNCTION.finditer(path.read_text(encoding="utf-8")):
        yield match[1]


def docstring_of_module(path: Path) -> str:
    """Returns the first string of a file if it comes before any other statement."""
    with path.open(encoding="utf-8") as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.STRING:
                return str(ast.literal_eval(token.string)).strip()
            if token.type not in (tokenize.COMMENT, tokenize.NL):
                break
    return ""


def has_banned_test_name(name: str) -> bool:
    """Whether a test name has a banned word or opening that is not allowed."""
    for phrase in ALLOWED_IN_TEST_NAMES:
        name = name.replace(phrase, "allowed")
    return bool(BANNED_IN_TEST_NAMES.search(name) or OPENING_OF_TEST_NAMES.match(name))


@pytest.mark.parametrize("folder", ["tests", "examples"])
def test_test_names_have_no_banned_word(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in files_of(folder, ".py")
        for name in names_of_tests(path)
        if has_banned_test_name(name)
    ]
    assert found == []


@pytest.mark.parametrize("folder", ["tests", "examples"])
def test_module_docstrings_of_tests_start_with_a_noun(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {docstring.splitlines()[0]}"
        for path in files_of(folder, ".py")
        if OPENING.match(docstring := docstring_of_module(path))
    ]
    assert found == []


def test_every_allowed_phrase_of_test_names_is_used() -> None:
    names = [
        name
        for folder in ("tests", "examples")
        for path in files_of(folder, ".py")
        for name in names_of_tests(path)
    ]
    assert [one for one in ALLOWED_IN_TEST_NAMES if not any(one in name for name in names)] == []


@pytest.mark.parametrize(
    ("name", "is_banned"),
    [
        ("test_who_waits_is_woken", True),
        ("test_of_two_errors_the_first_is_raised", True),
        ("test_a_member_is_told_its_partitions", True),
        ("test_a_topic_made_anew", True),
        ("test_lost_coordinator_is_looked_up_again", False),
        ("test_expired_session_revokes_all_partitions", False),
        ("test_forgiven_error_is_whatsoever", False),
    ],
)
def test_banned_words_are_found_in_test_names(name: str, is_banned: bool) -> None:
    assert has_banned_test_name(name) is is_banned
