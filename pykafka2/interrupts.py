"""Work that finishes although an exception, such as KeyboardInterrupt, is raised in the middle of it.

A signal handler can raise between any two steps of the main thread. The clients promise that an interrupted
call loses, skips and repeats no record, and that the client remains usable. Code keeps the promise by three
rules:

* A change is noted before it is made, and the note is removed last. The next call makes it again, so a
  change must be safe to repeat. (`Subscription.unsent` is such a note.)
* Several attributes that belong together are assigned without a call between the assignments.
* Cleanup uses the functions of this module, so that few other places need `except BaseException`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import ParamSpec, Protocol

P = ParamSpec("P")


def is_interrupt(error: BaseException | None) -> bool:
    """Return whether the exception asks the program to stop, as KeyboardInterrupt and SystemExit do."""
    return error is not None and not isinstance(error, Exception)


class Cleanup:
    """Runs the steps of a cleanup, all of them, whatever one raises.

    Pass each step to `run`, and raise the first error at the end:

        cleanup = Cleanup()
        cleanup.run(commit)
        cleanup.run(leave, timeout)
        cleanup.raise_first()
    """

    def __init__(self) -> None:
        self._raised: BaseException | None = None

    @property
    def is_interrupted(self) -> bool:
        """Whether an interrupt ended a step, so that the other steps should be short."""
        return is_interrupt(self._raised)

    def run(self, step: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Call one step and keep what it raises."""
        try:
            step(*args, **kwargs)
        except BaseException as error:
            if self._raised is None or (is_interrupt(error) and not is_interrupt(self._raised)):
                self._raised = error

    def raise_first(self) -> None:
        """Raise the first interrupt, otherwise the first error; return if there was none."""
        raised, self._raised = self._raised, None
        if raised is not None:
            try:
                raise raised
            finally:
                del raised  # or the traceback would refer to itself


def run_all(calls: Iterable[Callable[[], object]]) -> None:
    """Run every call, even if one raises, then raise as `Cleanup.raise_first` does."""
    cleanup = Cleanup()
    for call in calls:
        cleanup.run(call)
    cleanup.raise_first()


def finish(function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call a function, and once more if an exception ended the first call, which is then raised.

    The function must be safe to repeat.
    """
    try:
        function(*args, **kwargs)
    except BaseException:
        function(*args, **kwargs)
        raise


class Cancellable(Protocol):
    """A result that can be given up."""

    def cancel(self) -> object: ...


class CancelOnError:
    """A context manager that cancels a result if its block raises, so that no request is repeated for it."""

    __slots__ = ("_result",)

    def __init__(self, result: Cancellable) -> None:
        self._result = result

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._result.cancel()
