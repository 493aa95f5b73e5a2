"""pykafka2: a typed, pure-Python Kafka client, with a real Kafka broker that starts inside a unit test.

Public names only, loaded at first use (PEP 562): `import pykafka2` takes milliseconds, and a program that
only produces never loads the consumer. `pykafka2.errors` has the errors, `pykafka2.serializers` the
serializers, `pykafka2.testing` the bundled broker; `pykafka2.aio` the asyncio clients.
"""

from __future__ import annotations

import sys

from pykafka2.version import __version__ as __version__

TYPE_CHECKING = False  # type checkers take the name for true; importing typing would cost 5 ms

if TYPE_CHECKING:
    from typing import Any

    from pykafka2.admin.admin import KafkaAdminClient
    from pykafka2.admin.group_values import OffsetSpec
    from pykafka2.admin.values import (
        AclBinding,
        DelegationToken,
        NewTopic,
        QuotaEntity,
        ScramCredentialInfo,
        UserScramCredentialDeletion,
        UserScramCredentialUpsertion,
    )
    from pykafka2.consumer.assignors.assignor import (
        Assignment,
        Assignor,
        ClusterMetadata,
        LastAssignment,
        MemberSubscription,
        RebalanceProtocol,
    )
    from pykafka2.consumer.consumer import KafkaConsumer
    from pykafka2.consumer.group.listeners import ConsumerRebalanceListener
    from pykafka2.consumer.interceptors import ConsumerInterceptor
    from pykafka2.errors import KafkaError
    from pykafka2.events import ConnectionClosed, ConnectionOpened, RequestAnswered, RequestSent
    from pykafka2.hooks import (
        ClientInfo,
        ClientInterceptor,
        add_interceptor_factory,
        remove_interceptor_factory,
    )
    from pykafka2.native import implementation as implementation
    from pykafka2.producer.bulk.delivery import BulkDelivery
    from pykafka2.producer.delivery.delivery import Delivery
    from pykafka2.producer.interceptors import BulkRecords, ProducerInterceptor, ProducerRecord
    from pykafka2.producer.partitioning.partitioners import ClusterView, Partitioner
    from pykafka2.producer.producer import KafkaProducer
    from pykafka2.producer.transactions.handle import TransactionHandle, end_transaction, end_transactions
    from pykafka2.records.columns import Columns
    from pykafka2.serializers import DefaultSerializer, Deserializer, JsonSerializer, Serializer
    from pykafka2.share.consumer import KafkaShareConsumer
    from pykafka2.share.records import AcknowledgeType, Reject, ShareRecord
    from pykafka2.tables.scan import Estimate, Scan, scan
    from pykafka2.tables.write import Written, write
    from pykafka2.types import (
        AdminHealth,
        BadRecord,
        BatchMetadata,
        ClientHealth,
        ConsumerGroupMetadata,
        ConsumerHealth,
        ConsumerRecord,
        IsolationLevel,
        Metric,
        MetricKind,
        Node,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        PartitionInfo,
        ProducerHealth,
        RecordMetadata,
        ShareConsumerHealth,
        SubscriptionPattern,
        TopicPartition,
    )

_HOMES = {
    "Assignment": "pykafka2.consumer.assignors.assignor",
    "Assignor": "pykafka2.consumer.assignors.assignor",
    "ClusterMetadata": "pykafka2.consumer.assignors.assignor",
    "LastAssignment": "pykafka2.consumer.assignors.assignor",
    "MemberSubscription": "pykafka2.consumer.assignors.assignor",
    "RebalanceProtocol": "pykafka2.consumer.assignors.assignor",
    "BulkRecords": "pykafka2.producer.interceptors",
    "ClientInfo": "pykafka2.hooks",
    "ClientInterceptor": "pykafka2.hooks",
    "add_interceptor_factory": "pykafka2.hooks",
    "remove_interceptor_factory": "pykafka2.hooks",
    "ConnectionClosed": "pykafka2.events",
    "ConnectionOpened": "pykafka2.events",
    "RequestAnswered": "pykafka2.events",
    "RequestSent": "pykafka2.events",
    "BulkDelivery": "pykafka2.producer.bulk.delivery",
    "ClusterView": "pykafka2.producer.partitioning.partitioners",
    "DefaultSerializer": "pykafka2.serializers",
    "Delivery": "pykafka2.producer.delivery.delivery",
    "Deserializer": "pykafka2.serializers",
    "JsonSerializer": "pykafka2.serializers",
    "Partitioner": "pykafka2.producer.partitioning.partitioners",
    "ProducerInterceptor": "pykafka2.producer.interceptors",
    "ProducerRecord": "pykafka2.producer.interceptors",
    "Serializer": "pykafka2.serializers",
    "KafkaAdminClient": "pykafka2.admin.admin",
    "ConsumerInterceptor": "pykafka2.consumer.interceptors",
    "ConsumerRebalanceListener": "pykafka2.consumer.group.listeners",
    "KafkaConsumer": "pykafka2.consumer.consumer",
    "KafkaError": "pykafka2.errors",
    "KafkaProducer": "pykafka2.producer.producer",
    "AclBinding": "pykafka2.admin.values",
    "DelegationToken": "pykafka2.admin.values",
    "NewTopic": "pykafka2.admin.values",
    "QuotaEntity": "pykafka2.admin.values",
    "ScramCredentialInfo": "pykafka2.admin.values",
    "UserScramCredentialDeletion": "pykafka2.admin.values",
    "UserScramCredentialUpsertion": "pykafka2.admin.values",
    "AdminHealth": "pykafka2.types",
    "BadRecord": "pykafka2.types",
    "BatchMetadata": "pykafka2.types",
    "ClientHealth": "pykafka2.types",
    "Columns": "pykafka2.records.columns",
    "ConsumerGroupMetadata": "pykafka2.types",
    "ConsumerHealth": "pykafka2.types",
    "ConsumerRecord": "pykafka2.types",
    "IsolationLevel": "pykafka2.types",
    "Metric": "pykafka2.types",
    "MetricKind": "pykafka2.types",
    "Node": "pykafka2.types",
    "OffsetAndMetadata": "pykafka2.types",
    "OffsetAndTimestamp": "pykafka2.types",
    "OffsetSpec": "pykafka2.admin.group_values",
    "PartitionInfo": "pykafka2.types",
    "ProducerHealth": "pykafka2.types",
    "RecordMetadata": "pykafka2.types",
    "AcknowledgeType": "pykafka2.share.records",
    "KafkaShareConsumer": "pykafka2.share.consumer",
    "Reject": "pykafka2.share.records",
    "ShareConsumerHealth": "pykafka2.types",
    "ShareRecord": "pykafka2.share.records",
    "Estimate": "pykafka2.tables.scan",
    "Scan": "pykafka2.tables.scan",
    "scan": "pykafka2.tables.scan",
    "Written": "pykafka2.tables.write",
    "write": "pykafka2.tables.write",
    "SubscriptionPattern": "pykafka2.types",
    "TopicPartition": "pykafka2.types",
    "implementation": "pykafka2.native",
    "TransactionHandle": "pykafka2.producer.transactions.handle",
    "end_transaction": "pykafka2.producer.transactions.handle",
    "end_transactions": "pykafka2.producer.transactions.handle",
}

__all__ = [
    "AcknowledgeType",
    "AclBinding",
    "AdminHealth",
    "Assignment",
    "Assignor",
    "BadRecord",
    "BatchMetadata",
    "BulkDelivery",
    "BulkRecords",
    "ClientHealth",
    "ClientInfo",
    "ClientInterceptor",
    "ClusterMetadata",
    "ClusterView",
    "Columns",
    "ConnectionClosed",
    "ConnectionOpened",
    "ConsumerGroupMetadata",
    "ConsumerHealth",
    "ConsumerInterceptor",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "DefaultSerializer",
    "DelegationToken",
    "Delivery",
    "Deserializer",
    "Estimate",
    "IsolationLevel",
    "JsonSerializer",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaError",
    "KafkaProducer",
    "KafkaShareConsumer",
    "LastAssignment",
    "MemberSubscription",
    "Metric",
    "MetricKind",
    "NewTopic",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetSpec",
    "PartitionInfo",
    "Partitioner",
    "ProducerHealth",
    "ProducerInterceptor",
    "ProducerRecord",
    "QuotaEntity",
    "RebalanceProtocol",
    "RecordMetadata",
    "Reject",
    "RequestAnswered",
    "RequestSent",
    "Scan",
    "ScramCredentialInfo",
    "Serializer",
    "ShareConsumerHealth",
    "ShareRecord",
    "SubscriptionPattern",
    "TopicPartition",
    "TransactionHandle",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
    "Written",
    "add_interceptor_factory",
    "end_transaction",
    "end_transactions",
    "remove_interceptor_factory",
    "scan",
    "write",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise _unknown(name)
    from importlib import import_module

    from pykafka2.lifecycle import loading

    with loading:  # a fork meanwhile would leave import locks that are never released in the child
        value = getattr(import_module(home), name)
    globals()[name] = value  # found directly from now on
    return value


def _unknown(name: str) -> AttributeError | ImportError:
    if name[:1] != "_":  # Python and its tools look up many dunder names
        from pykafka2.other_clients import INSTEAD_OF_CLASSES

        if name in INSTEAD_OF_CLASSES:
            words = f"pykafka2 has no {name!r}. Use {INSTEAD_OF_CLASSES[name]}"
            # `from pykafka2 import Producer` would replace an AttributeError by its own words, and `hasattr`
            # takes nothing else.  The frames are __getattr__'s and its caller's.
            if sys._getframe(2).f_code.co_name == "_handle_fromlist":
                return ImportError(words, name="pykafka2")
            return AttributeError(words)
    return AttributeError(f"module 'pykafka2' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
