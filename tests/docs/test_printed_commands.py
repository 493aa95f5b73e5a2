"""The commands that README and docs print exist and take the printed arguments.

Those of docs/guides/command-line.md also run (test_command_line_guide.py), and the first ones of the README
(tests/packages/as_a_user.py).
"""

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
from pykafka2.cli.main import VERBS, build_parser

# Other tests have imported some of the modules that run here as programs.
pytestmark = pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
BLOCK = re.compile(r"^ *```([^\n]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
OPERATORS = {"|", "||", "&&", "&", ";", ">", ">>", "<", ">&", "(", ")"}


def code_of(text: str) -> list[str]:
    """Return the lines of all blocks but Python's, and what stands in code style within the text."""
    text = re.sub(r" *\\\n *", " ", text)  # a backslash continues a line
    blocks = [body for language, body in BLOCK.findall(text) if not language.startswith("python")]
    inline = re.findall(r"`([^`]+)`", BLOCK.sub("", text))
    return [line.strip() for body in blocks for line in body.splitlines()] + [
        " ".join(one.split()) for one in inline
    ]


def commands_in(code: str, pattern: str) -> list[list[str]]:
    """Return the words behind each match of a pattern in a line, up to the next operator of the shell."""
    found = []
    for match in re.finditer(rf"(?:^|(?<=[\s(|;]))(?:{pattern})(?= |$)", code):
        try:
            lexer = shlex.shlex(code[match.end() :], posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            words = []
            for word in lexer:
                if word in OPERATORS:
                    break
                words.append(word)
        except ValueError:  # an apostrophe: the output of a command
            continue
        found.append([*match.group().split()[-1:], *words])
    return found


def printed(pattern: str) -> list[str]:
    """Return the commands of all pages that begin with a pattern, each once, in one string each."""
    lines = {line for page in PAGES for line in code_of(page.read_text(encoding="utf-8"))}
    every = [words for line in lines for words in commands_in(line, pattern)]
    return sorted(
        {shlex.join(words) for words in every if not any("..." in one or "…" in one for one in words)}
    )


def module_file(module: str) -> Path:
    """Return the file that `python -m` runs."""
    path = ROOT / module.replace(".", "/")
    return path / "__main__.py" if path.is_dir() else path.with_suffix(".py")


MODULES = [
    re.sub(r"\bN\b", "262144", one) for one in printed(r"python -m (?:benchmarks|tests|examples)\.[\w.]+")
]


class Accepted(Exception):
    """The command's parser accepted the arguments."""


def parse_as_printed(monkeypatch: pytest.MonkeyPatch, printed: str) -> None:
    """Run a printed command until it has parsed its arguments.  Raises SystemExit if it rejects them."""
    module, *arguments = shlex.split(printed)
    if "parse_args" not in module_file(module).read_text(encoding="utf-8"):
        assert arguments == []  # it takes none
        return
    parse = argparse.ArgumentParser.parse_args

    def parse_and_stop(parser: argparse.ArgumentParser, *positional: Any, **options: Any) -> None:
        parse(parser, *positional, **options)
        raise Accepted

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_and_stop)
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    with pytest.raises(Accepted):
        runpy.run_module(module, run_name="__main__", alter_sys=False)


@pytest.mark.parametrize("printed", MODULES)
def test_printed_module_takes_the_printed_arguments(printed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parse_as_printed(monkeypatch, printed)


def check_typed(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Parse a command `pykafka2`.  One that only names options may lack the verb's arguments."""
    try:
        build_parser(words).parse_args(words)
    except SystemExit as end:
        printed = capsys.readouterr()
        if end.code == 0:  # --help
            return
        assert re.search("required|expected (?:at least )?one|needs", printed.err), printed.err
        names = [word for word in words if re.fullmatch("[a-z][a-z-]*", word)][:2]
        for count in (2, 1):
            with pytest.raises(SystemExit) as shown:
                build_parser(words).parse_args([*names[:count], "--help"])
            if shown.value.code == 0:
                break
        known = capsys.readouterr().out
        assert [one for one in words if one.startswith("--") and one.partition("=")[0] not in known] == []


TYPED = [
    one
    for one in printed(r"(?:python -m )?pykafka2(?= [a-z]+(?![\w:.]))")
    if shlex.split(one)[1] in VERBS or "--" in one
]


@pytest.mark.parametrize("typed", TYPED)
def test_printed_command_takes_the_printed_arguments(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    check_typed(shlex.split(typed)[1:], capsys)


@pytest.mark.parametrize("typed", ["topics creat x", "topics create --partition 3", "broker --quik", "to x"])
def test_a_command_that_does_not_exist_is_found(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AssertionError):
        check_typed(typed.split(), capsys)


PYTESTS = [one for one in printed(r"(?:python -m )?pytest") if re.match("pytest (-|tests|examples)", one)]
WRITTEN_BY_READERS = re.findall(r"^ *# (tests/\S+\.py)$", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.M)
"""Files whose text the guide for contributors prints (tests/architecture/test_adding.py creates them)."""


@pytest.mark.parametrize("line", PYTESTS)
def test_printed_pytest_command_has_options_and_paths_that_exist(
    line: str, pytestconfig: pytest.Config
) -> None:
    chosen, unknown = pytestconfig._parser.parse_known_and_unknown_args(shlex.split(line)[1:])
    assert unknown == []
    paths = [one.partition("::")[0] for one in chosen.file_or_dir]
    assert [path for path in paths if path not in WRITTEN_BY_READERS and not (ROOT / path).exists()] == []


def test_printed_nox_sessions_and_gate_stages_exist() -> None:
    noxfile = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    sessions = set(re.findall(r"^def (\w+)\(session", noxfile, re.MULTILINE))
    named = {words.split()[2] for words in printed(r"nox") if words.startswith("nox -s ")}
    assert {re.sub(r"-3\.\d+$", "", one) for one in named} <= sessions
    assert len(named) > 3
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    stages = set(re.findall(r'^STAGES="(.*)"$', gate, re.MULTILINE)[0].split())
    run = [words.split()[1:] for words in printed(r"\.ci/run|bash \.ci/run")]
    assert {one for words in run for one in words} <= {*stages, "--list"}
    assert len(run) > 1


def test_commands_are_found_in_text_tables_and_blocks() -> None:
    text = (
        "`python -m benchmarks.aio --rounds\nN` and `X=1 pykafka2 a 'b|c' -d | sort > e`\n| `pykafka2 f` |\n"
        "```console\n$ pykafka2 \\\n    g; python -m pykafka2 h\n```\n```python\npykafka2 i\n```\n"
    )
    code = code_of(text)
    assert [one for line in code for one in commands_in(line, r"python -m benchmarks\.[\w.]+")] == [
        ["benchmarks.aio", "--rounds", "N"]
    ]
    typed = [one for line in code for one in commands_in(line, r"(?:python -m )?pykafka2")]
    assert sorted(typed) == [["pykafka2", "a", "b|c", "-d"], *(["pykafka2", one] for one in "fgh")]
    assert len(MODULES) > 20
    assert len(TYPED) > 50
    assert len(PYTESTS) > 8


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
