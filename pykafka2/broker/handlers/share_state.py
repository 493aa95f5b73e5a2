"""APIs of the share coordinator: the state of share partitions (KIP-932), for other brokers.

All of them are submitted to the shards of their share partitions, which respond once their records are
committed (coordinators/share/). The coordinator is imported with the first share group.
"""

from __future__ import annotations

from pykafka2.broker.handlers.api import SHARE_COORDINATOR, api
from pykafka2.broker.handlers.authorization import on_cluster
from pykafka2.protocol.acl_terms import Operation
from pykafka2.protocol.messages.share_state import (
    DeleteShareGroupStateRequest,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    WriteShareGroupStateRequest,
)

BY_BROKERS = on_cluster(Operation.CLUSTER_ACTION)

api(InitializeShareGroupStateRequest, 0, 0, at=SHARE_COORDINATOR, access=BY_BROKERS)
api(ReadShareGroupStateRequest, 0, 0, at=SHARE_COORDINATOR, access=BY_BROKERS)
api(WriteShareGroupStateRequest, 0, 1, at=SHARE_COORDINATOR, access=BY_BROKERS)
api(DeleteShareGroupStateRequest, 0, 0, at=SHARE_COORDINATOR, access=BY_BROKERS)
api(ReadShareGroupStateSummaryRequest, 0, 1, at=SHARE_COORDINATOR, access=BY_BROKERS)
