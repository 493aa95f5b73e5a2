"""Administrative APIs, registered without importing their messages: each is loaded with its first request.

The versions are those of Apache Kafka 4.3.1. A module named here has `handle` and `refuse`, or these with the
suffix from the table.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import attrs

from pykafka2.broker.handlers.api import APIS, Api
from pykafka2.protocol.registry import ApiKey
from pykafka2.protocol.struct import Request, Response

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext


@attrs.define(frozen=True)
class LazyHandler:
    """An API whose module is imported with its first request."""

    min_version: int
    max_version: int
    module: str
    by_controller: bool = True
    suffix: str = ""
    by_version: bool = False
    """Whether error responses depend on the version of the request."""
    oldest_version: int | None = None
    """The lowest version as an older release (api.py)."""

    def function(self, name: str) -> Any:
        return getattr(import_module(f"pykafka2.broker.handlers.{self.module}"), name + self.suffix)

    def handle(
        self, services: Services, context: RequestContext, request: Request[Any], now: float
    ) -> Response | None:
        response: Response | None = self.function("handle")(services, context, request, now)
        return response

    def refuse(self, request: Request[Any], version: int, code: int) -> Response:
        refuse = self.function("refuse")
        response: Response = refuse(request, version, code) if self.by_version else refuse(request, code)
        return response


LATER: Final = {
    ApiKey.CREATE_TOPICS: LazyHandler(2, 7, "topics", suffix="_create_topics", oldest_version=0),
    ApiKey.DELETE_TOPICS: LazyHandler(1, 6, "topics", suffix="_delete_topics", oldest_version=0),
    ApiKey.DESCRIBE_CONFIGS: LazyHandler(
        1, 4, "describe_configs", suffix="_describe_configs", by_controller=False, oldest_version=0
    ),
    ApiKey.DESCRIBE_CLUSTER: LazyHandler(0, 2, "metadata", suffix="_describe_cluster", by_controller=False),
    ApiKey.ALTER_CONFIGS: LazyHandler(0, 2, "alter_configs"),
    ApiKey.CREATE_PARTITIONS: LazyHandler(0, 3, "topics", suffix="_create_partitions"),
    ApiKey.ELECT_LEADERS: LazyHandler(0, 2, "partitions", suffix="_elect_leaders", by_version=True),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: LazyHandler(0, 1, "alter_configs", suffix="_incremental"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: LazyHandler(
        0, 1, "partitions", suffix="_alter_partition_reassignments"
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: LazyHandler(
        0, 0, "partitions", suffix="_list_partition_reassignments"
    ),
    ApiKey.DESCRIBE_QUORUM: LazyHandler(0, 2, "quorum", suffix="_describe_quorum"),
    ApiKey.ADD_RAFT_VOTER: LazyHandler(0, 1, "quorum", suffix="_add_raft_voter"),
    ApiKey.REMOVE_RAFT_VOTER: LazyHandler(0, 0, "quorum", suffix="_remove_raft_voter"),
    ApiKey.UPDATE_FEATURES: LazyHandler(0, 2, "update_features"),
    ApiKey.UNREGISTER_BROKER: LazyHandler(0, 0, "brokers", suffix="_unregister_broker"),
    ApiKey.LIST_CONFIG_RESOURCES: LazyHandler(
        0, 1, "describe_configs", suffix="_list_config_resources", by_controller=False
    ),
    ApiKey.DESCRIBE_ACLS: LazyHandler(
        1, 3, "acls", by_controller=False, suffix="_describe", oldest_version=0
    ),
    ApiKey.CREATE_ACLS: LazyHandler(1, 3, "acls", suffix="_create", oldest_version=0),
    ApiKey.DELETE_ACLS: LazyHandler(1, 3, "acls", suffix="_delete", oldest_version=0),
    ApiKey.CREATE_DELEGATION_TOKEN: LazyHandler(
        1, 3, "delegation_tokens", by_controller=False, suffix="_create", oldest_version=0
    ),
    ApiKey.RENEW_DELEGATION_TOKEN: LazyHandler(
        1, 2, "delegation_tokens", by_controller=False, suffix="_renew", oldest_version=0
    ),
    ApiKey.EXPIRE_DELEGATION_TOKEN: LazyHandler(
        1, 2, "delegation_tokens", by_controller=False, suffix="_expire", oldest_version=0
    ),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: LazyHandler(
        1, 3, "delegation_tokens", by_controller=False, suffix="_describe", oldest_version=0
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: LazyHandler(
        0, 0, "scram_users", by_controller=False, suffix="_describe"
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: LazyHandler(0, 0, "scram_users", suffix="_alter"),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: LazyHandler(
        0, 1, "client_quotas", by_controller=False, suffix="_describe"
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: LazyHandler(0, 1, "client_quotas", suffix="_alter"),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: LazyHandler(0, 0, "describe_topic_partitions", by_controller=False),
}

for _key, _later in LATER.items():
    APIS[_key] = Api(
        _key,
        _later.min_version,
        _later.max_version,
        _later.handle,
        by_controller=_later.by_controller,
        oldest_version=_later.oldest_version,
        refuse_in_version=_later.refuse,
    )
