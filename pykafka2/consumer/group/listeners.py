"""Rebalance listeners: the public base class, and plain functions instead of it.

Called on the thread that polls, unsubscribes or closes, inside that call and with no lock held, so a listener
can use the consumer: commit, seek, position, pause.  Exceptions of a listener are raised from that call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from pykafka2.errors import IllegalArgument
from pykafka2.option_fields import AWAITED_BY_AIO, is_async
from pykafka2.slotted import slotted
from pykafka2.types import TopicPartition

Callback = Callable[[Sequence[TopicPartition]], object]
"""A function that is called with the partitions of a rebalance."""
Event = Literal["assigned", "revoked", "lost"]


class ConsumerRebalanceListener:
    """Base class for rebalance listeners; any object with these methods works, too (KIP-429).

    `on_partitions_assigned` is called after each rebalance with the added partitions, possibly none.  The
    other two are called only with partitions.  Lists are sorted.
    """

    def on_partitions_assigned(self, assigned: Sequence[TopicPartition]) -> None:
        """Called with added partitions, before their first record is returned; `seek` works here."""

    def on_partitions_revoked(self, revoked: Sequence[TopicPartition]) -> None:
        """Called before other members get these partitions; commits still succeed until it returns."""

    def on_partitions_lost(self, lost: Sequence[TopicPartition]) -> None:
        """Called after the group removed this member; others can own these partitions, so commits fail.

        The default calls `on_partitions_revoked`.
        """
        self.on_partitions_revoked(lost)


def _ignore(partitions: Sequence[TopicPartition]) -> None:
    """Do nothing, for a callback that was not set."""


@slotted(frozen=True)
class Listeners:
    """The listeners of `subscribe` as three functions."""

    assigned: Callback = _ignore
    revoked: Callback = _ignore
    lost: Callback = _ignore


NO_LISTENERS = Listeners()


def listeners_of(
    listener: Any, on_assigned: Callback | None, on_revoked: Callback | None, on_lost: Callback | None
) -> Listeners:
    """Return the listeners of an object with Kafka's three methods, or of functions.

    Without a function for lost partitions, the one for revoked partitions is called.

    Raises:
        IllegalArgument: both an object and functions are given, or one of them cannot be called.
    """
    functions = {"on_assigned": on_assigned, "on_revoked": on_revoked, "on_lost": on_lost}
    if listener is not None:
        names = [name for name, function in functions.items() if function is not None]
        if names:
            raise IllegalArgument(f"subscribe(): give a listener, or {' and '.join(names)}, and not both")
        return _of_object(listener)
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise IllegalArgument(f"subscribe(): {name}={function!r} is not callable; give f(partitions)")
        if is_async(function):
            raise IllegalArgument(f"subscribe(): {name}={function!r}: {AWAITED_BY_AIO}")
    revoked = on_revoked or _ignore
    return Listeners(on_assigned or _ignore, revoked, on_lost or revoked)


def _of_object(listener: Any) -> Listeners:
    if isinstance(listener, type):
        raise IllegalArgument(
            f"subscribe(): listener is the class {listener.__name__}; give an object: {listener.__name__}()"
        )
    assigned = _method(listener, "on_partitions_assigned")
    revoked = _method(listener, "on_partitions_revoked")
    lost = _method(listener, "on_partitions_lost")
    if assigned is revoked is lost is None:
        raise IllegalArgument(
            f"subscribe(): listener={listener!r} has none of on_partitions_assigned, on_partitions_revoked "
            "and on_partitions_lost; give an object with them, or on_assigned=, on_revoked=, on_lost="
        )
    on_revoked = revoked or _ignore
    return Listeners(assigned or _ignore, on_revoked, lost or on_revoked)


def _method(listener: Any, name: str) -> Callback | None:
    method = getattr(listener, name, None)
    if method is not None and not callable(method):
        raise IllegalArgument(f"subscribe(): {name} of listener={listener!r} is not callable")
    if is_async(method):
        raise IllegalArgument(f"subscribe(): {name} of listener={listener!r}: {AWAITED_BY_AIO}")
    return method
