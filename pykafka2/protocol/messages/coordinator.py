"""FindCoordinator: the coordinator of a group, a transaction or a share partition.

Sent to any broker.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Int8, Int16, Int32, String, field
from pykafka2.protocol.struct import Request, Response, Struct


class FindCoordinatorRequest(Request["FindCoordinatorResponse"], api_key=10, versions="0-6", flexible="3+"):
    """Find a coordinator; `key_type` 0 is a group, 1 a transaction, 2 a share partition."""

    key: String = field("0-3", default="")
    key_type: Int8 = field("1+", default=0)  # 0: group, 1: transaction, 2: share partition
    coordinator_keys: list[String] = field("4+", factory=list)


class Coordinator(Struct):
    key: String
    node_id: Int32
    host: String
    port: Int32
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default="", nullable="0+", ignorable=True)


class FindCoordinatorResponse(Response, api_key=10, versions="0-6", flexible="3+"):
    """The coordinator, from version 4 on one for each key."""

    throttle_time_ms: Int32 = field("1+", default=0, ignorable=True)
    error_code: Int16 = field("0-3", default=0)
    error_message: String | None = field("1-3", default="", nullable="0+", ignorable=True)
    node_id: Int32 = field("0-3", default=0)
    host: String = field("0-3", default="")
    port: Int32 = field("0-3", default=0)
    coordinators: list[Coordinator] = field("4+", factory=list)
