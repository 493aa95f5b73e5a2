"""Checks for all cases: no traceback is logged for any response of a broker."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _no_tracebacks_in_the_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.WARNING)
    yield
    logged = caplog.get_records("call")
    assert [one.getMessage() for one in logged if one.exc_info] == []
    assert [one.getMessage()[:200] for one in logged if len(one.getMessage()) > 3_000] == []
