"""Rebalance listeners: the public base class, and plain functions in its place.

Called on the thread that polls, unsubscribes or closes, inside that call and with no lock held, so a listener
may use the consumer: commit, seek, position, pause.  What it raises reaches the caller of that call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from pykafka2.errors import IllegalArgument
from pykafka2.option_fields import NOT_AWAITED, is_async
from pykafka2.types import TopicPartition

Told = Callable[[Sequence[TopicPartition]], object]


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


def _tell_nobody(partitions: Sequence[TopicPartition]) -> None:
    """Nobody listens."""


@attrs.define(frozen=True)
class Listeners:
    """The listeners of `subscribe` in one form."""

    assigned: Told = _tell_nobody
    revoked: Told = _tell_nobody
    lost: Told = _tell_nobody


NO_LISTENERS = Listeners()


def listeners_of(
    listener: Any, on_assigned: Told | None, on_revoked: Told | None, on_lost: Told | None
) -> Listeners:
    """An object with Kafka's three methods, or functions; raises `IllegalArgument` for both or neither.

    Where nobody listens to losses, they are told as revocations.
    """
    functions = {"on_assigned": on_assigned, "on_revoked": on_revoked, "on_lost": on_lost}
    if listener is not None:
        given = [name for name, function in functions.items() if function is not None]
        if given:
            raise IllegalArgument(f"subscribe(): give a listener, or {' and '.join(given)}, and not both")
        return _of_object(listener)
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise IllegalArgument(f"subscribe(): {name}={function!r} is not callable; give f(partitions)")
        if is_async(function):
            raise IllegalArgument(f"subscribe(): {name}={function!r}: {NOT_AWAITED}")
    revoked = on_revoked or _tell_nobody
    return Listeners(on_assigned or _tell_nobody, revoked, on_lost or revoked)


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
    told_of_revocation = revoked or _tell_nobody
    return Listeners(assigned or _tell_nobody, told_of_revocation, lost or told_of_revocation)


def _method(listener: Any, name: str) -> Told | None:
    method = getattr(listener, name, None)
    if method is not None and not callable(method):
        raise IllegalArgument(f"subscribe(): {name} of listener={listener!r} is not callable")
    if is_async(method):
        raise IllegalArgument(f"subscribe(): {name} of listener={listener!r}: {NOT_AWAITED}")
    return method
