"""The Spark tests of a plain `python -m pytest`: those marked `smoke`, in a process of their own.

A Spark session keeps sockets and threads open, which the leak checks of other tests in its process would
report.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from spark_connector.testing import why_no_spark

TESTS = Path(__file__).parent
ALONE = ("-n", "0", "-p", "no:randomly", "-p", "no:cacheprovider")


@pytest.mark.long  # the gate runs these tests in its stage `spark`
@pytest.mark.slow
@pytest.mark.longest
def test_smoke_set_passes() -> None:
    reason = why_no_spark()
    if reason is not None:
        pytest.skip(reason)
    files = [
        str(path) for path in TESTS.glob("test_*.py") if "mark.smoke\n" in path.read_text(encoding="utf-8")
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *ALONE, "-m", "smoke", *sorted(files)],
        cwd=TESTS.parents[1],
        env={**environment, "PYKAFKA2_REQUIRE_SPARK": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    (passed,) = re.findall(r"(\d+) passed", done.stdout)
    assert int(passed) >= 2
