"""The benchmark of calls runs, and counts both threads of each client."""

from __future__ import annotations

import re
import sys

import pytest

from benchmarks.calls import SUBJECTS, main


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the processor time of other threads")
def test_command_prints_calls_of_both_threads(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--records", "5", "--rounds", "1", "--functions", "2"])
    text = capsys.readouterr().out
    rows = re.findall(
        r"^(\w+) +(caller|IO) +([\d.]+) Python calls, +([\d.]+) C calls, +([\d.]+) us", text, re.M
    )
    assert [row[:2] for row in rows] == [
        (subject, thread) for subject in SUBJECTS for thread in ("caller", "IO")
    ]
    assert all(float(number) > 0 for row in rows for number in row[2:])
    assert len(re.findall(r"^ +[\d.]+  \S", text, re.M)) == 2 * len(rows)
    main(["producer", "--records", "5", "--rounds", "2", "--bytecodes"])
    counts = re.findall(r"^producer +(\w+) +([\d.]+) bytecodes, +[\d.]+ us", capsys.readouterr().out, re.M)
    assert [thread for thread, _ in counts] == ["caller", "IO"]
    assert all(1000 < float(number) < 10_000 for _, number in counts)
