"""The checks of each API, as in Apache Kafka 4.3.1's KafkaApis and ControllerApis.

An API that is missing here needs no authorization (ApiVersions, SASL) or is for brokers only. Requests
about delegation tokens concern the client's own tokens.
"""

from __future__ import annotations

from typing import Final

from pykafka2.broker.handlers import (
    describe_topic_partitions,
    fetch,
    find_coordinator,
    groups,
    metadata,
    produce,
    topics,
    transactions,
)
from pykafka2.broker.handlers.authorization import (
    Check,
    check_configs,
    each,
    each_topic,
    in_turn,
    on_cluster,
    on_named,
)
from pykafka2.protocol.acl_terms import Operation, ResourceType
from pykafka2.protocol.registry import ApiKey

GROUP, TRANSACTIONAL_ID = ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
READ_GROUP: Final = on_named(Operation.READ, GROUP, "group_id")
WRITE_TRANSACTION: Final = on_named(Operation.WRITE, TRANSACTIONAL_ID, "transactional_id")
READ_EACH_TOPIC: Final = each_topic(Operation.READ)

CHECKS: Final[dict[int, Check]] = {
    # Records.
    ApiKey.PRODUCE: produce.check_produce,
    ApiKey.FETCH: fetch.check_fetch,
    ApiKey.LIST_OFFSETS: each_topic(Operation.DESCRIBE),
    ApiKey.DELETE_RECORDS: each_topic(Operation.DELETE),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: each_topic(
        Operation.DESCRIBE,
        unless=lambda checked: checked.access.may_on_cluster(Operation.CLUSTER_ACTION, notes=False),
    ),
    ApiKey.DESCRIBE_PRODUCERS: READ_EACH_TOPIC,
    # The cluster and its topics.
    ApiKey.METADATA: metadata.check_metadata,
    ApiKey.DESCRIBE_CLUSTER: metadata.check_cluster,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions.check_topic_partitions,
    ApiKey.CREATE_TOPICS: topics.check_create_topics,
    ApiKey.DELETE_TOPICS: topics.check_delete_topics,
    ApiKey.CREATE_PARTITIONS: each_topic(
        Operation.ALTER, "topics", "results", skip_duplicates=True, message=None
    ),
    ApiKey.DESCRIBE_CONFIGS: check_configs(Operation.DESCRIBE_CONFIGS, "results"),
    ApiKey.ALTER_CONFIGS: check_configs(Operation.ALTER_CONFIGS, "responses"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: check_configs(Operation.ALTER_CONFIGS, "responses", names_loggers=True),
    ApiKey.LIST_CONFIG_RESOURCES: on_cluster(Operation.DESCRIBE_CONFIGS),
    ApiKey.DESCRIBE_LOG_DIRS: on_cluster(Operation.DESCRIBE),
    ApiKey.ALTER_REPLICA_LOG_DIRS: on_cluster(Operation.ALTER),
    ApiKey.ELECT_LEADERS: on_cluster(Operation.ALTER),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: on_cluster(Operation.ALTER),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: on_cluster(Operation.DESCRIBE),
    ApiKey.DESCRIBE_QUORUM: on_cluster(Operation.DESCRIBE),
    ApiKey.ADD_RAFT_VOTER: on_cluster(Operation.ALTER),
    ApiKey.REMOVE_RAFT_VOTER: on_cluster(Operation.ALTER),
    ApiKey.UPDATE_FEATURES: on_cluster(Operation.ALTER),
    ApiKey.UNREGISTER_BROKER: on_cluster(Operation.ALTER),
    ApiKey.DESCRIBE_ACLS: on_cluster(Operation.DESCRIBE),
    ApiKey.CREATE_ACLS: on_cluster(Operation.ALTER),
    ApiKey.DELETE_ACLS: on_cluster(Operation.ALTER),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: on_cluster(Operation.DESCRIBE_CONFIGS),
    ApiKey.ALTER_CLIENT_QUOTAS: on_cluster(Operation.ALTER_CONFIGS),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: on_cluster(Operation.DESCRIBE),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: on_cluster(Operation.ALTER),
    # Groups.
    ApiKey.FIND_COORDINATOR: find_coordinator.check_find_coordinator,
    ApiKey.JOIN_GROUP: READ_GROUP,
    ApiKey.SYNC_GROUP: groups.check_sync,
    ApiKey.HEARTBEAT: READ_GROUP,
    ApiKey.LEAVE_GROUP: READ_GROUP,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: in_turn(READ_GROUP, groups.check_subscription),
    ApiKey.OFFSET_COMMIT: in_turn(READ_GROUP, READ_EACH_TOPIC),
    ApiKey.OFFSET_FETCH: groups.check_offset_fetch,
    ApiKey.OFFSET_DELETE: in_turn(on_named(Operation.DELETE, GROUP, "group_id"), groups.check_offset_delete),
    ApiKey.LIST_GROUPS: groups.check_list_groups,
    ApiKey.DESCRIBE_GROUPS: in_turn(
        each(Operation.DESCRIBE, GROUP, "groups", "groups"), groups.set_group_operations
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: in_turn(
        each(Operation.DESCRIBE, GROUP, "group_ids", "groups"),
        groups.hide_consumer_groups_topics,
        groups.set_group_operations,
    ),
    ApiKey.DELETE_GROUPS: each(Operation.DELETE, GROUP, "groups_names", "results"),
    # Transactions.
    ApiKey.INIT_PRODUCER_ID: transactions.check_init_producer_id,
    ApiKey.ADD_PARTITIONS_TO_TXN: transactions.check_add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: in_turn(WRITE_TRANSACTION, READ_GROUP),
    ApiKey.END_TXN: WRITE_TRANSACTION,
    ApiKey.TXN_OFFSET_COMMIT: in_turn(WRITE_TRANSACTION, READ_GROUP, READ_EACH_TOPIC),
    ApiKey.WRITE_TXN_MARKERS: transactions.check_markers,
    ApiKey.DESCRIBE_TRANSACTIONS: in_turn(
        each(Operation.DESCRIBE, TRANSACTIONAL_ID, "transactional_ids", "transaction_states"),
        transactions.hide_transactions_topics,
    ),
    ApiKey.LIST_TRANSACTIONS: transactions.check_list_transactions,
}
