"""Runs every call even if one raises, and picks which exception to raise at the end. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def tell_each(calls: Iterable[Callable[[], object]]) -> None:
    """Make every call, in order; then raise what the first that failed has raised."""
    first: BaseException | None = None
    for call in calls:
        try:
            call()
        except BaseException as error:
            first = first or error
    if first is not None:
        raise first


def graver(first: BaseException | None, then: BaseException) -> BaseException:
    """The first, as it may have led to the other; but a Ctrl-C, or `sys.exit`, before what is none."""
    if first is None or (isinstance(first, Exception) and not isinstance(then, Exception)):
        return then
    return first
