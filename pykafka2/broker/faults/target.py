"""What faults may do to a broker: the narrow side of it that they know."""

from __future__ import annotations

from typing import Protocol

from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.base.timing_wheel import TimingWheel
from pykafka2.broker.replication.replica_manager import ReplicaManager
from pykafka2.broker.server.request_channel import RequestContext
from pykafka2.clock import Clock
from pykafka2.protocol.struct import Response


class Target(Protocol):
    """A broker whose requests are looked at.  Under the cluster's lock."""

    image: ClusterImage

    @property
    def id(self) -> int: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def wheel(self) -> TimingWheel: ...

    @property
    def replicas(self) -> ReplicaManager: ...

    def handle(self, context: RequestContext, now: float) -> None:
        """Answer a request that has arrived."""
        ...

    def refused(self, context: RequestContext, code: int | None) -> Response | None:
        """The answer with an error everywhere; None if the connection was closed instead."""
        ...

    def answer(self, context: RequestContext, now: float) -> None:
        """Answer a request, whatever faults say."""
        ...

    def go_on(self, context: RequestContext) -> None:
        """Have a request that was held handled."""
        ...

    def on_reply(self, context: RequestContext, response: Response | None) -> bool:
        """An answer is about to leave; False if a fault takes care of it."""
        ...
