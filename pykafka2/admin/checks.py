"""`check_cluster`: checks each broker from this host, step by step, before programs rely on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.admin.arguments import real_number, text

if TYPE_CHECKING:
    from pykafka2.admin.check_values import ClusterCheck
    from pykafka2.cluster.client import ClusterClient


class ChecksAdmin:
    """The check of a cluster. Thread-safe."""

    _cluster: ClusterClient

    def check_cluster(
        self, *, timeout: float = 5.0, max_clock_skew: float = 5.0, clock_topic: str | None = None
    ) -> ClusterCheck:
        """Check each broker from this host; return each step with the cause and the fix of a failure.

        Connections are new ones, with the options of this client. Each bootstrap address and each address
        that brokers advertise is resolved, connected, and used: TLS, API versions, SASL, metadata. The
        cluster's steps compare the brokers: "agreement" on the cluster, "partitions" without a leader,
        "versions", and the "clock" of the active controller. Errors of brokers are part of the result and not
        raised.

        Args:
            timeout: seconds for each name, connection and request; all addresses are checked at once.
            max_clock_skew: seconds by which clocks can differ.
            clock_topic: a topic with message.timestamp.type=LogAppendTime. A record is written to a partition
                of each leader, whose clock is in the response; nothing else shows the clock of a broker that
                is not the controller.

        Raises:
            ClientClosed: the client was closed before or during the call.
            IllegalArgument: an argument is not valid.
        """
        from pykafka2.admin.check_run import CheckRun

        timeout = real_number("timeout", timeout, minimum=0.001)
        max_clock_skew = real_number("max_clock_skew", max_clock_skew, minimum=0.0)
        if clock_topic is not None:
            text("clock_topic", clock_topic)
        check = CheckRun(self._cluster, timeout)
        try:
            return check.run(max_clock_skew, clock_topic)
        finally:
            check.close()
