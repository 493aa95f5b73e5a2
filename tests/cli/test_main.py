"""The entry point: help, suggestions, exit codes, closed pipes and completion scripts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

from pykafka2.cli.common.parsing import SUBCOMMANDS
from pykafka2.cli.main import VERBS, build_parser, main
from tests.cli.typed import COMMAND, environment, in_terminal, pykafka2


@pytest.mark.gate
@pytest.mark.slow
def test_help_lists_every_verb_and_the_exit_codes() -> None:
    done = pykafka2("--help")
    assert done.returncode == 0
    for verb in VERBS:
        assert re.search(rf"^    {verb} +\w", done.stdout.decode(), re.MULTILINE), verb
    assert b"130 interrupted" in done.stdout


CTRL_C_AT_IMPORT = """
import os, runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)

class CtrlC:
    def find_spec(self, name, *_):
        if name == "pykafka2.cli.main":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, CtrlC())
sys.argv = ["pykafka2", "--help"]
"""


@pytest.mark.parametrize(
    "run",
    [
        "runpy.run_module('pykafka2', run_name='__main__')",
        "runpy.run_module('pykafka2.cli', run_name='__main__')",
        "from pykafka2.cli.entry import main; sys.exit(main())",  # the installed command
    ],
)
def test_ctrl_c_while_modules_are_imported_shows_no_traceback(run: str) -> None:
    done = subprocess.run([sys.executable, "-c", CTRL_C_AT_IMPORT + run], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_has_examples(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([verb, "--help"])
    assert ended.value.code == 0
    assert f"examples:\n  pykafka2 {verb}" in capsys.readouterr().out


@pytest.mark.gate
def test_help_of_an_action_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in VERBS:
        for action in actions_of(verb):
            with pytest.raises(SystemExit):
                main([verb, action, "--help"])
            assert f"examples:\n  pykafka2 {verb} {action}" in capsys.readouterr().out, (verb, action)


def actions_of(verb: str) -> list[str]:
    """The actions of a verb, such as those of `topics`; none for `produce`."""
    (verbs,) = (one for one in build_parser([verb])._actions if isinstance(one, SUBCOMMANDS))
    parser = verbs.choices[verb]
    return [name for one in parser._actions if isinstance(one, SUBCOMMANDS) for name in one.choices]


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("brokr", "broker"),
        ("broker --prot 1", "--port"),
        ("completion bsh", "bash"),
        ("demo --sabotage lase", "lose"),
    ],
)
def test_misspelt_word_exits_with_2_and_suggests_the_nearest(
    line: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert ended.value.code == 2
    assert f"did you mean {meant}?" in capsys.readouterr().err


def test_option_before_the_verb_is_reported_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["-b", "kafka:9092", "topics", "list"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(": option -b must follow the verb: pykafka2 topics ... -b\n")


def test_option_is_not_abbreviated() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["demo", "--rec", "3"])
    assert ended.value.code == 2


def test_only_the_module_of_the_typed_verb_is_imported() -> None:
    code = (
        "import sys; from pykafka2.cli.main import build_parser; build_parser(['completion', 'bash']); "
        "print(sorted(name for name in sys.modules if name in "
        "('pykafka2.cli.demo', 'pykafka2.cli.broker', 'asyncio', 'tqdm', 'shtab', 'logging')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment())
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.gate
@pytest.mark.slow
def test_closed_pipe_ends_the_command_without_an_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*COMMAND, "--help"], stdout=writing, stderr=subprocess.PIPE, env=environment())
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.gate
@pytest.mark.slow
def test_closed_pipe_keeps_the_exit_code_of_a_failure() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    words = ["check", "-b", "127.0.0.1:1", "--timeout", "0.5"]
    done = subprocess.run([*COMMAND, *words], stdout=writing, stderr=subprocess.PIPE, env=buffered())
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.gate
@pytest.mark.slow
def test_full_disk_is_a_failure_with_a_message() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, "perf", "--help"], stdout=full, stderr=subprocess.PIPE, env=buffered()
        )
    assert (done.returncode, done.stderr) == (1, b"pykafka2: stdout: No space left on device\n")


def buffered() -> dict[str, str]:
    """The environment with which stdout is written at the end, and not line by line."""
    return {name: value for name, value in environment().items() if name != "PYTHONUNBUFFERED"}


@pytest.mark.gate
@pytest.mark.slow
def test_version_is_shown_in_a_terminal() -> None:
    code, shown = in_terminal("--version")
    assert code == 0
    assert re.fullmatch(r"pykafka2 \S+ \(implementation: (python|c)\)\r\n", shown)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_has_every_verb(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(verb in script for verb in VERBS)


@pytest.mark.slow
def test_bash_completes_a_verb(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    code = script + (
        "\nCOMP_WORDS=(pykafka2 dem); COMP_CWORD=1; COMP_LINE='pykafka2 dem'; COMP_POINT=12"
        '\n_shtab_pykafka2 pykafka2 dem pykafka2; echo "reply=${COMPREPLY[*]}"\n'
    )
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True)
    assert "reply=demo" in done.stdout, done.stderr


def test_every_verb_has_a_summary_that_fits_a_line() -> None:
    parser = build_parser()
    assert all(len(line) <= 110 for line in parser.format_help().splitlines())


@pytest.mark.parametrize("line", ["t a b --whole", "--whole t a b", "t --whole a b", "t a --whole b"])
def test_options_can_stand_between_positional_arguments(line: str) -> None:
    parsed = build_parser(["produce"]).parse_args(["produce", *line.split()])
    assert (parsed.topic, parsed.files, parsed.whole) == ("t", ["a", "b"], True)


@pytest.mark.gate
@pytest.mark.slow
def test_messages_of_a_closed_stderr_are_not_printed_to_stdout() -> None:
    words = " ".join(COMMAND)
    done = subprocess.run(
        ["sh", "-c", f"{words} consume orders -X nonsense 2>&-"], capture_output=True, env=environment()
    )
    assert (done.returncode, done.stdout) == (2, b"")


@pytest.mark.gate
@pytest.mark.slow
def test_failure_has_its_exit_code_if_the_reader_of_stderr_is_gone() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*COMMAND, "consume", "orders", "-X", "nonsense"], stderr=write, env=environment())
    os.close(write)
    assert done.returncode == 2
