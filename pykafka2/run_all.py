"""Runs every call even if one raises, and picks which exception to raise at the end. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def call_each(calls: Iterable[Callable[[], object]]) -> None:
    """Make every call in order, then raise the first exception, if any."""
    first: BaseException | None = None
    for call in calls:
        try:
            call()
        except BaseException as error:
            first = first or error
    if first is not None:
        raise first


def exception_to_raise(first: BaseException | None, then: BaseException) -> BaseException:
    """Returns the first exception, as it can be the cause of the later one.

    A later KeyboardInterrupt or SystemExit takes precedence over a first `Exception`.
    """
    if first is None or (isinstance(first, Exception) and not isinstance(then, Exception)):
        return then
    return first
