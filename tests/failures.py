"""Failures are printed when they happen: a stage of the gate that exceeds its time limit has no summary."""

from __future__ import annotations

import os

import pytest

MOST_LINES = 60
"""Number of last lines of a failure that are printed at once; all of them follow at the end of the run."""


class FailuresAtOnce:
    """A pytest plugin (see tests/conftest.py) for unattended runs."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @staticmethod
    def is_wanted(config: pytest.Config) -> bool:
        """In the gate, used by the one process that collects the reports of all tests."""
        return bool(os.environ.get("CI")) and not hasattr(config, "workerinput")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.failed:
            return
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is None:
            return
        terminal.write("\n")  # after the dots of others
        terminal.write_line(f"FAILED so far: {report.nodeid}, {report.when}, after {report.duration:.1f} s")
        for line in report.longreprtext.splitlines()[-MOST_LINES:]:
            terminal.write_line(f"    {line}")
