"""Calls of transactions that somebody waits for, from their beginning until their outcome was heard.

Made by callers' threads (transaction_calls.py), kept and completed by the IO thread (transaction_manager.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import attrs

from pykafka2.driver.completion import Completion
from pykafka2.errors import KafkaError
from pykafka2.producer.transaction_state import Call
from pykafka2.producer.transaction_steps import Offsets


@attrs.define(eq=False)
class Ticket:
    """A call that somebody waits for.  `is_heard` is set by the caller when it has the outcome."""

    call: Call
    completion: Completion[Any]
    offsets: Offsets | None = None
    is_heard: bool = False


class Waiting:
    """Who waits for the present init, end or detachment, and for offsets.  The IO thread only.

    When a call has ended well its tickets stay until the next one begins: if all callers had given up by
    then, somebody has yet to be told.
    """

    def __init__(self) -> None:
        self._tickets: list[Ticket] = []
        self._offsets: deque[tuple[Ticket, Offsets]] = deque()

    def begin(self, *tickets: Ticket) -> None:
        """Another call begins."""
        self._tickets = [*tickets]

    def join(self, ticket: Ticket) -> None:
        """The same call again."""
        self._tickets.append(ticket)

    def missed(self) -> Call | None:
        """The call that ended well and was heard by nobody; asked only when it is over."""
        if not self._tickets or any(one.is_heard for one in self._tickets):
            return None
        return self._tickets[0].call

    def succeed(self, value: object) -> None:
        for ticket in self._tickets:
            ticket.completion.succeed(value)

    def fail(self, error_of: Callable[[Call], KafkaError]) -> None:
        tickets, self._tickets = self._tickets, []
        for ticket in tickets:
            ticket.completion.fail(error_of(ticket.call))

    # ------------------------------------------------------------------ offsets, in the order of their calls

    def add_offsets(self, ticket: Ticket) -> None:
        if ticket.offsets is not None:
            self._offsets.append((ticket, ticket.offsets))

    def next_offsets(self) -> tuple[Ticket, Offsets] | None:
        return self._offsets[0] if self._offsets else None

    def offsets_sent(self, ticket: Ticket) -> None:
        """The first of them are stored; or these had been dropped meanwhile."""
        if self._offsets and self._offsets[0][0] is ticket:
            self._offsets.popleft()
        ticket.completion.succeed(None)

    def drop_offsets(self, error: KafkaError) -> None:
        """None of them will be sent."""
        waiting, self._offsets = self._offsets, deque()
        for ticket, _ in waiting:
            ticket.completion.fail(error)
