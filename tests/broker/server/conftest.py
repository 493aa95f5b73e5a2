"""The responses of a broker to its clients."""

from __future__ import annotations

import pytest

from pykafka2.broker.server.request_context import RequestContext
from pykafka2.testing import KafkaCluster


@pytest.fixture
def responded(kafka_cluster: KafkaCluster) -> list[str | None]:
    """The client ids of the requests of clients that broker 0 has responded to, in this order."""
    requests = kafka_cluster.brokers[0].requests
    respond = requests.dispatch
    client_ids: list[str | None] = []

    def spy(context: RequestContext, now: float) -> None:
        if not context.is_from_broker:
            client_ids.append(context.client_id)
        respond(context, now)

    requests.dispatch = spy  # type: ignore[method-assign]
    return client_ids
