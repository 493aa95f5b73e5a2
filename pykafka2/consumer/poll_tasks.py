"""What poll() sees to besides reading: commits and the group's membership.

Caller's thread.  reader.py attends to each task before it looks for records, and again whenever one has news
while it waits.
"""

from __future__ import annotations

from typing import Protocol


class PollTask(Protocol):
    """One such duty."""

    def attend(self, remaining: float) -> None:
        """Do what is due; may wait up to `remaining` seconds, call the application's callbacks, and raise."""
        ...

    def due_in(self) -> float:
        """Seconds until it wants to be attended to again at the latest; inf for not before news."""
        ...

    def has_news(self) -> bool:
        """True if `attend` would do something now.  Asked by whichever thread wakes waiters: no lock."""
        ...

    def on_wait(self) -> None:
        """poll() has found no records, and waits for some, or for news."""
        ...

    def on_return(self) -> None:
        """poll() goes back to the application, with records, without, or by an error."""
        ...
