"""Telling several handlers something, so that none stays untold because another one has a bug.

Pure; used where a connection or a client ends and everybody who waits must hear of it.

Which of several errors is raised where all is done that is to be done, whatever was raised on the way.

Pure.
"""

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
