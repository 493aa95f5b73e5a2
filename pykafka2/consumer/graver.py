"""Which of several errors is raised where all is done that is to be done, whatever was raised on the way.

Pure.
"""

from __future__ import annotations


def graver(first: BaseException | None, then: BaseException) -> BaseException:
    """The first, as it may have led to the other; but a Ctrl-C, or `sys.exit`, before what is none."""
    if first is None or (isinstance(first, Exception) and not isinstance(then, Exception)):
        return then
    return first
