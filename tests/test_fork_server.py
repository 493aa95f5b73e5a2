"""The process that forks commands: without it they start as usual."""

from __future__ import annotations

import sys
from collections import Counter

import pytest

from pykafka2 import __version__
from tests.cli.typed import pykafka2
from tests.fork_server import FIRST_COMMANDS, _Server


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not fork")
def test_commands_start_as_usual_once_the_process_that_forks_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_Server, "_servers", {})
    monkeypatch.setattr(_Server, "_commands", Counter({"": FIRST_COMMANDS}))
    for _ in range(3):
        done = pykafka2("--version")
        assert (done.returncode, __version__ in done.stdout.decode()) == (0, True)
        (server,) = _Server._servers.values()
        server._process.kill()
        server._process.wait()
