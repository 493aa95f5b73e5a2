"""English as in the Python and Kafka documentation: openings of docstrings, words of texts, and line breaks.

No docstring starts with a relative clause; no docstring, comment, message or guide has a banned word, and no
identifier. No paragraph has a line that ends far too early. The names of all test functions are checked, too.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = ("benchmarks", "examples", "pykafka2", "spark_connector", "tests")
SUFFIXES = (".py", ".md")
TEXTS = ("CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md", "docs", *CODE)
EXCLUDED = {
    "tests/architecture/test_english.py": "lists the banned words",
}
"""Files that are not checked by beginning of their path, each with its reason."""
LABELS = {"tests/conformance/behaviour/on_": "the keys of the recorded responses of Apache Kafka"}
"""Files whose strings are not checked by beginning of their path, each with its reason."""
BANNED = re.compile(
    r"\b(told|untold|telling|asked|asking|nobody|somebody|anybody|everybody|whoever|whom|anew|"
    r"heard|hears|hearing|spoken|looked at|looks at|seen to|sees to|gone on with|stands? in for|"
    r"what is no|that which|good-?byes?)\b",
    re.IGNORECASE,
)
BANNED_IN_NAMES = frozenset(
    {"told", "untold", "given", "asked", "asking", "looked", "heard", "spoken", "goodbye"}
)
NAME = re.compile(rf"\b\w*(?:{'|'.join(BANNED_IN_NAMES)})\w*", re.IGNORECASE)
"""Names that contain the letters of a banned word."""
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
ALLOWED_IN_TESTS = {
    "asked_at": "an attribute of pykafka2.testing.simulation.history",
    "told_at": "an attribute of pykafka2.testing.simulation.history",
    "given": "Hypothesis's decorator, in files that import it",
}
"""Names that all tests may use, each with its reason."""
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
OPENING = re.compile(r'^ *"""\\?\s*((?:Who|Whose|Whom|What|Where|Of|As)\b[^\n"]*)', re.MULTILINE)
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
VERBS = frozenset({"Creates", "Makes", "Prints", "Raises", "Returns", "Sends", "Starts", "Writes", "Yields"})
"""Verbs that no docstring of a test starts with. Others can be nouns: "Records", "Offsets"."""
TOKEN = re.compile(
    r'#[^\n]*|"""(?:[^"\\]|\\.|"(?!""))*"""|'
    r"'''(?:[^'\\]|\\.|'(?!''))*'''|"
    r'"(?:[^"\\\n]|\\.)*"|'
    r"'(?:[^'\\\n]|\\.)*'",
    re.DOTALL,
)
"""A comment or a string of Python. The tokenizer of the standard library takes ten times as long."""
COMMENTS = re.compile(r"^ *# .*(?:\n *# .*)+", re.MULTILINE)
BLOCK = re.compile(r'"""\S| *# ')
PREFIX = re.compile(r" *(?:# )?")
IN_A_SENTENCE = re.compile(r"[\w,:;-]$|[^.!?][)`'\"]$")
CONTINUES = re.compile(r"(?!\"\"\")[a-zA-Z0-9(`'\"](?!\w*: )")
ROW = re.compile(r"[\w)] {2,}\S")
LINE_LENGTH = 110
FREE = 20
"""Columns that remain at the end of a line after the next line's first word, if the line ended too early."""


def files_of(folder: str, *suffixes: str) -> list[Path]:
    """Return the files of a folder, or the one file of this name."""
    root = ROOT / folder
    files = [root] if root.is_file() else sorted(path for path in root.rglob("*") if path.suffix in suffixes)
    assert files, folder
    return files


def checked(folder: str, *suffixes: str) -> list[Path]:
    """Return the files of a folder without those that are excluded."""
    return [path for path in files_of(folder, *suffixes) if not place_of(path).startswith(tuple(EXCLUDED))]


def place_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name


def openings(source: str) -> list[str]:
    """Return the first lines of the docstrings that start with a relative clause."""
    return [match[1] for match in OPENING.finditer(source)]


@pytest.mark.parametrize("folder", CODE)
def test_docstrings_start_with_a_verb_or_a_noun(folder: str) -> None:
    found = [
        f"{place_of(path)}: {line}"
        for path in checked(folder, ".py")
        for line in openings(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize("folder", CODE)
def test_docstrings_of_functions_start_in_the_imperative(folder: str) -> None:
    found = [
        f"{place_of(path)}: {verb}"
        for path in checked(folder, ".py")
        for verb in THIRD_PERSON.findall(path.read_text(encoding="utf-8"))
        if verb not in NOUNS and (folder != "tests" or verb in VERBS)
    ]
    assert found == []


def test_a_docstring_in_the_third_person_is_found() -> None:
    source = 'def end() -> int:\n    """%s the offset."""\n'
    assert THIRD_PERSON.findall(source % "Returns") == ["Returns"]
    assert THIRD_PERSON.findall(source % "Return") == []
    assert {"Returns", "Raises", "Sends"} <= VERBS
    assert not VERBS & NOUNS


def test_names_of_tests_are_found_in_coroutines_and_strings(tmp_path: Path) -> None:
    path = tmp_path / "example.py"
    path.write_text('async def test_a() -> None:\n    """Run."""\n\nSOURCE = """\ndef test_b(): ...\n"""\n')
    assert [*names_of_tests(path)] == ["test_a", "test_b"]


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """Return the comments and strings of a Python file, or the lines of any other file, by line number.

    A string of a single word in a test is data, such as the name of a topic.
    """
    source, place = path.read_text(encoding="utf-8"), place_of(path)
    if path.suffix != ".py":
        yield from enumerate(source.splitlines(), 1)
        return
    for match in TOKEN.finditer(source):
        is_data = place.startswith("tests/") and not re.search(r"\s", match[0])
        is_label = place.startswith(tuple(LABELS)) and not match[0].startswith(("#", '"""'))
        if not is_data and not is_label:
            yield source.count("\n", 0, match.start()) + 1, match[0]


def names_of(path: Path) -> Iterator[tuple[int, str]]:
    """Return the identifiers of a Python file that contain a banned word, by line number."""
    source = path.read_text(encoding="utf-8")
    code = TOKEN.sub(lambda match: "\n" * match[0].count("\n"), source)
    for match in NAME.finditer(code):
        name = match[0]
        for phrase in ALLOWED_IN_TEST_NAMES:
            name = name.replace(phrase, "")
        if BANNED_IN_NAMES & set(name.lower().split("_")):
            yield code.count("\n", 0, match.start()) + 1, match[0]


def banned_words(path: Path) -> list[str]:
    """Return place and word of each banned word in texts that is not allowed."""
    place = place_of(path)
    if not BANNED.search(path.read_text(encoding="utf-8")):
        return []  # to find the strings of all files takes seconds
    return [
        f"{place}:{line}: {word}"
        for line, text in texts_of(path)
        for word in BANNED.findall(text)
        if (place, word.lower()) not in ALLOWED
    ]


def banned_names(path: Path) -> list[str]:
    """Return place and name of each identifier with a banned word that is not allowed."""
    place = place_of(path)
    source = path.read_text(encoding="utf-8")
    if not NAME.search(source):
        return []
    allowed = set(ALLOWED_IN_TESTS) if place.startswith("tests/") else set()
    if "hypothesis" not in source:
        allowed.discard("given")
    return [
        f"{place}:{line}: {name}"
        for line, name in names_of(path)
        if name not in allowed and (place, name) not in ALLOWED
    ]


@pytest.mark.parametrize("folder", TEXTS)
def test_texts_have_no_banned_word(folder: str) -> None:
    assert [found for path in checked(folder, *SUFFIXES) for found in banned_words(path)] == []


@pytest.mark.gate
@pytest.mark.parametrize("folder", CODE)
def test_names_have_no_banned_word(folder: str) -> None:
    assert [found for path in checked(folder, ".py") for found in banned_names(path)] == []


def test_all_folders_of_python_and_pages_of_the_root_are_checked() -> None:
    assert {path.parent.name for path in ROOT.glob("*/__init__.py")} <= {*CODE}
    assert {path.name for path in ROOT.glob("*.md")} <= {*TEXTS}
    assert not [one for one in EXCLUDED if one in ("", "tests/", "docs/", *CODE)]


def test_every_exception_is_used_and_has_a_reason() -> None:
    for (place, word), reason in ALLOWED.items():
        path = ROOT / place
        words = {name for _, name in names_of(path)} if path.suffix == ".py" else set()
        words |= {found.lower() for _, text in texts_of(path) for found in BANNED.findall(text)}
        assert word in words, f"{place} does not use {word!r} any more: remove the exception"
        assert reason
    for beginning in (*EXCLUDED, *LABELS):
        assert list((ROOT / beginning).parent.glob(f"{Path(beginning).name}*")), beginning


def test_a_banned_word_is_found_in_a_text_and_in_a_name(tmp_path: Path) -> None:
    path = tmp_path / "example.py"
    path.write_text(
        '"""Nobody is told."""\n\ntold = 1  # asked\nprint("Connection closed", told)\n', encoding="utf-8"
    )
    assert banned_words(path) == ["example.py:1: Nobody", "example.py:1: told", "example.py:3: asked"]
    assert banned_names(path) == ["example.py:3: told", "example.py:4: told"]


def test_a_string_of_one_word_is_data_in_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    for folder in ("tests", "examples"):
        path = tmp_path / folder / "example.py"
        path.parent.mkdir()
        path.write_text('send("nobody", f"nobody waits")\n', encoding="utf-8")
    assert banned_words(tmp_path / "tests/example.py") == ["tests/example.py:1: nobody"]
    assert len(banned_words(tmp_path / "examples/example.py")) == 2


@pytest.mark.parametrize("word", ["Who", "Whose", "Whom", "What", "Where", "Of", "As"])
def test_each_opening_is_found(word: str) -> None:
    assert openings(f'    """{word} it is."""\n') == [f"{word} it is."]
    assert openings(f'    """{word}ever."""\n') == []


def test_pages_are_checked_by_lines(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("# Page\n\nNobody waits.\n", encoding="utf-8")
    assert banned_words(path) == ["page.md:3: Nobody"]
    assert ROOT / "docs" / "guides" / "start.md" in checked("docs", *SUFFIXES)


def test_a_relative_clause_is_found() -> None:
    source = '"""What it does."""\n\ndef work() -> None:\n    """Return nothing."""\n'
    assert openings(source) == ["What it does."]
    assert openings('"""\\\n    Who waits."""') == ["Who waits."]
    assert openings('size = 1\n"""Of a page."""\n') == ["Of a page."], "attributes have docstrings, too"
    assert openings('"""Return nothing."""') == []


def blocks_of(source: str) -> Iterator[tuple[int, list[str]]]:
    """Return the docstrings and the blocks of comments: the number of the first line, and the lines."""
    for match in itertools.chain(TOKEN.finditer(source), COMMENTS.finditer(source)):
        start = source.rfind("\n", 0, match.start()) + 1
        if BLOCK.match(match[0]) and not source[start : match.start()].strip():
            yield source.count("\n", 0, start) + 1, source[start : match.end()].splitlines()


def ends_early(line: str, following: str) -> bool:
    """Whether a line ends in the middle of a sentence although the next word would have fitted by far."""
    if not IN_A_SENTENCE.search(line) or not CONTINUES.match(following) or ROW.search(following):
        return False
    return len(line) + 1 + len(following.split(maxsplit=1)[0]) <= LINE_LENGTH - FREE


def early_ends(source: str) -> list[str]:
    """Return number and text of the lines of docstrings and comments that end too early.

    Lines that are indented further, as in examples, and rows of tables are left out.
    """
    found = []
    for number, lines in blocks_of(source):
        base = PREFIX.match(lines[0])[0]  # type: ignore[index]
        for index, (line, following) in enumerate(itertools.pairwise(lines)):
            is_text = PREFIX.match(line)[0] == PREFIX.match(following)[0] == base  # type: ignore[index]
            if is_text and ends_early(line, following[len(base) :]):
                found.append(f"{number + index}: {line.strip()}")
    return found


@pytest.mark.gate
@pytest.mark.parametrize("folder", CODE)
def test_paragraphs_have_no_line_that_ends_early(folder: str) -> None:
    found = [
        f"{place_of(path)}:{line}"
        for path in checked(folder, ".py")
        for line in early_ends(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        ('"""Return the records\nof a partition.\n"""', True),
        ("# The broker closes the connection\n# after this response.\n", True),
        ('    """Return the records, which\n    belong to a partition: with\n    gaps."""', True),
        (f'"""{"x" * 80} of\na partition."""', True),
        ('"""Return the records.\n\nRaises an error.\n"""', False),
        ('"""Return the records.\nRaises an error.\n"""', False),
        (f'"""{"Returns the records " * 5}of\na partition."""', False),
        ('"""Two fields:\n\n    topic: its name\n    partition: its number\n"""', False),
        ('"""Two fields:\n\n- the topic\n- the partition\n"""', False),
        ('script = """\nimport os\nimport sys\n"""', False),
    ],
)
def test_a_line_that_ends_early_is_found(source: str, is_found: bool) -> None:
    assert bool(early_ends(source)) is is_found


def names_of_tests(path: Path) -> Iterator[str]:
    """Return the names of the test functions of a file, and of those in its strings."""
    for match in TEST_FUNCTION.finditer(path.read_text(encoding="utf-8")):
        yield match[1]


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
        f"{place_of(path)}: {match[1]}"
        for path in files_of(folder, ".py")
        if (match := OPENING.match(path.read_text(encoding="utf-8")))
    ]
    assert found == []


@pytest.mark.gate
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
