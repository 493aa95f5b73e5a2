"""The marker of tests that a plain `python -m pytest` leaves out: `.ci/run` and `nox -s tests` run them.

A test is the gate's when it takes long and others cover the same code: many seeds, long walks and fuzzing,
processes.  One quick case of each stays in the plain run.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

MARKER = "gate"


def rest_in_gate(values: Iterable[object]) -> list[object]:
    """Values for `pytest.mark.parametrize`: the first in every run, the others in the gate."""
    first, *others = values
    mark = getattr(pytest.mark, MARKER)
    return [
        first,
        *(pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=mark) for one in others),
    ]
