"""What faults need of the broker that a request has come to.

A broker is handed to the fault rules with each request; they know it as a `Target`.  All under the cluster's
lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.base.timing_wheel import TimingWheel
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.clock import Clock
from pykafka2.protocol.struct import Response


class Target(Protocol):
    """One broker, as far as a fault may act on it."""

    image: ClusterImage
    """What it answers from; a rule may put an older one there for the time of one answer."""

    @property
    def id(self) -> int: ...

    @property
    def wheel(self) -> TimingWheel: ...

    @property
    def clock(self) -> Clock: ...

    def handle(self, context: RequestContext, now: float) -> None:
        """Handle a request that was under way until now; it may meet rules yet."""
        ...

    def answer(self, context: RequestContext, now: float) -> None:
        """Have a request answered, whatever rules there are."""
        ...

    def go_on(self, context: RequestContext) -> None:
        """Queue a request that was held or delayed."""
        ...

    def take_in(self, context: RequestContext) -> None:
        """Queue a request that comes only now, over no connection."""
        ...

    def refused(self, context: RequestContext, code: int | None) -> Response | None:
        """The answer with an error everywhere; where there can be none the connection is closed."""
        ...

    def on_reply(self, context: RequestContext, response: Response | None) -> bool:
        """A request is answered: False if a fault takes care of the answer."""
        ...

    def in_fetch_session(self, session_id: int) -> Iterable[tuple[str, int]]:
        """The partitions of a fetch session; none if it is not known."""
        ...
