"""Heartbeat requests of a member of a classic group.

Owned by membership.py, on the driver's thread, which handles the responses. The timing is in
group/member.py.
"""

from __future__ import annotations

from collections.abc import Callable

from pykafka2.backoff import Backoff
from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.group.member import Heartbeat
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.consumer.state.group_identity import GroupIdentity
from pykafka2.driver.pollable import Send, ToCoordinator
from pykafka2.errors import KafkaError, error_or_none
from pykafka2.logs import ClientLogger
from pykafka2.protocol.messages.group import HeartbeatRequest, HeartbeatResponse

OnHeartbeat = Callable[[GroupIdentity, KafkaError | None, float], None]
"""Called with the sender's identity, the error of the response or request (None if there is none), and the
time."""


class Heartbeats:
    """Builds one member's heartbeats; `timing` determines when the next one is due."""

    def __init__(
        self,
        options: ConsumerOptions,
        cluster: ClusterClient,
        to: ToCoordinator,
        backoff: Backoff,
        on_heartbeat: OnHeartbeat,
    ) -> None:
        self.timing = Heartbeat(options.heartbeat_interval, options.session_timeout, backoff)
        self._options = options
        self._coordinators = cluster.coordinators
        self._to = to
        self._on_heartbeat = on_heartbeat
        self._log = ClientLogger(__name__, options.client_id)

    def next(self, identity: GroupIdentity, now: float) -> Send[HeartbeatResponse]:
        """Return the next heartbeat, marked as sent."""
        self._warn_of_silence(now)
        self.timing.on_sent(now)
        request = HeartbeatRequest(
            group_id=self._to.key,
            generation_id=identity.generation_id,
            member_id=identity.member_id,
            group_instance_id=identity.group_instance_id,
        )

        def on_response(response: HeartbeatResponse, now: float) -> None:
            error = error_or_none(response.error_code)
            if error is not None and error.refresh_coordinator:
                self._coordinators.forget_answerer(send)
            self._on_heartbeat(identity, error, now)

        send: Send[HeartbeatResponse] = Send(
            request,
            self._to,
            on_response,
            lambda error, then: self._on_heartbeat(identity, error, then),
            timeout=min(self._options.request_timeout, self.timing.timeout),
        )
        return send

    def _warn_of_silence(self, now: float) -> None:
        timing = self.timing
        if timing.is_session_over(now) and not timing.is_warned:
            timing.is_warned = True
            self._log.warning(
                "group %r: no response to a heartbeat for %.1f s, longer than session_timeout_ms; the "
                "coordinator has probably removed this member",
                self._to.key,
                now - timing.answered_at,
            )
