"""The commands of docs/guides/command-line.md run as printed, in order, and print the documented lines."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pykafka2 import KafkaAdminClient, NewTopic
from pykafka2.cli.main import EPILOG
from pykafka2.cli.records.record_formats import ESCAPES
from pykafka2.testing import QUICK, KafkaCluster
from tests.cli.typed import ROOT, environment
from tests.docs.test_code_width import WIDTH

GUIDE = ROOT / "docs" / "guides" / "command-line.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[tuple[str, list[str]]]:
    """Return the commands of all blocks, each with the lines that it prints.

    A command continues on the next line after a backslash.
    """
    found: list[tuple[str, list[str]]] = []
    for block in BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def folded(text: str) -> str:
    """Break longer lines between words, as the guide does with messages."""
    lines = [
        textwrap.wrap(line, WIDTH, break_on_hyphens=False) if len(line) > WIDTH else [line]
        for line in text.splitlines()
    ]
    return "".join(f"{part}\n" for parts in lines for part in parts)


@pytest.mark.gate
@pytest.mark.slow
def test_commands_print_the_documented_lines(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "pykafka2"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m pykafka2.cli "$@"\n')
    program.chmod(0o755)
    script, expected = "", ""
    for number, (command, lines) in enumerate(commands(GUIDE.read_text(encoding="utf-8"))):
        script += f"{command}\nlast=$?; echo '--{number}'; (exit $last)\n"
        expected += "".join(f"{line}\n" for line in [*lines, f"--{number}"])
    with KafkaCluster(brokers=1, config=QUICK) as cluster:
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            topics = [NewTopic("orders", 2, 1), NewTopic("copy", 2, 1)]
            admin.create_topics(topics, wait_for_metadata=True)
        done = subprocess.run(
            ["bash", "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=tmp_path,
            text=True,
            timeout=120,
            env=environment(
                PATH=f"{program.parent}:{os.environ['PATH']}",
                PYKAFKA2_BOOTSTRAP_SERVERS=cluster.bootstrap_servers,
            ),
        )
    assert folded(done.stdout) == expected


def test_guide_names_every_exit_code_and_every_escape() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert all(f"| {code} |" in text for code in re.findall(r"^  0|\b\d+\b", EPILOG.split("exit codes:")[1]))
    assert all(f"`\\{name}`" in text for name in ESCAPES)
