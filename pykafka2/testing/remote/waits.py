"""The admin port's `wait`: calls a view repeatedly until its result matches.

Other calls are served meanwhile: the port's loop checks waits in its turns (http_port.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from pykafka2.errors import ConfigurationError, KafkaTimeoutError
from pykafka2.testing.remote.openapi import COUNT
from pykafka2.testing.waiting import NOT_YET


@attrs.define(eq=False)
class Wait:
    """A call without a response so far."""

    call: str
    view: Callable[[], Any]
    """Calls the view; returns plain data."""
    until: Mapping[str, Any]
    timeout: float
    """Seconds."""
    deadline: float | None = None
    """Set by the first check."""
    result: Any = None

    def is_over(self, now: float) -> bool:
        """Return whether the view matches; `result` then hold it.

        Raise `KafkaTimeoutError` after the timeout, and errors of the view except "does not exist yet".
        """
        if self.deadline is None:
            self.deadline = now + self.timeout
        missing: Exception | None = None
        try:
            self.result = self.view()
        except NOT_YET as error:
            missing = error
        if missing is None and is_as_wanted(self.result, self.until):
            return True
        if now < self.deadline:
            return False
        wanted = ", ".join(f"{path}={value!r}" for path, value in self.until.items()) or "something"
        last = repr(missing or self.result)
        shown = last if len(last) <= 500 else last[:500] + "..."
        raise KafkaTimeoutError(
            f"{self.call} did not have {wanted} within {self.timeout:g} seconds; last: {shown}"
        )


def is_as_wanted(result: Any, until: Mapping[str, Any]) -> bool:
    """Return whether all fields match and all counts are large enough; without any, whether it is not empty.

    A field is a name or an index of a list, nested ones have dots ("members.0.client_id"); "count" at the end
    is the length of a list or object.
    """
    if not until:
        return bool(result)
    return all(_matches(result, path, wanted) for path, wanted in until.items())


def _matches(result: Any, path: str, wanted: Any) -> bool:
    *steps, last = path.split(".")
    for step in steps:
        result = _inside(result, step)
    if last == COUNT and isinstance(result, list | dict) and COUNT not in result:
        if not isinstance(wanted, int) or isinstance(wanted, bool):
            raise ConfigurationError(f"until: {path}={wanted!r} is illegal. Set the minimum number.")
        return len(result) >= wanted
    found = _inside(result, last)
    return found is not MISSING and bool(found == wanted)


MISSING = object()


def _inside(value: Any, step: str) -> Any:
    if isinstance(value, dict):
        return value.get(step, MISSING)
    if isinstance(value, list) and step.isdecimal() and int(step) < len(value):
        return value[int(step)]
    return MISSING
