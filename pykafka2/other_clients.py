"""Names of other clients and their counterparts here, for errors about unknown names.

Data, look-ups in it, and decorators that add what they find to an error. options.py uses the names of
options, the clients and their values those of calls and arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import wraps
from inspect import iscoroutinefunction, isfunction
from typing import Any, Final, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

OF_A_CONSUMER: Final = frozenset(
    {
        "auto_commit_interval_ms",
        "auto_offset_reset",
        "check_crcs",
        "consumer_timeout_ms",
        "default_api_timeout_ms",
        "default_offset_commit_callback",
        "enable_auto_commit",
        "enable_auto_offset_store",
        "enable_incremental_fetch_sessions",
        "exclude_internal_topics",
        "fetch_max_bytes",
        "fetch_max_wait_ms",
        "fetch_min_bytes",
        "group_id",
        "group_instance_id",
        "group_protocol",
        "group_remote_assignor",
        "heartbeat_interval_ms",
        "isolation_level",
        "key_deserializer",
        "max_decompressed_bytes",
        "max_partition_fetch_bytes",
        "max_poll_interval_ms",
        "max_poll_records",
        "on_bad_record",
        "partition_assignment_strategy",
        "queued_max_bytes",
        "session_timeout_ms",
        "value_deserializer",
    }
)
"""Options of a consumer only."""

OF_A_PRODUCER: Final = frozenset(
    {
        "acks",
        "batch_size",
        "buffer_memory",
        "bulk_batch_size",
        "compression_gzip_level",
        "compression_lz4_level",
        "compression_type",
        "compression_zstd_level",
        "delivery_timeout_ms",
        "enable_idempotence",
        "key_serializer",
        "linger_ms",
        "max_block_ms",
        "max_in_flight_requests_per_connection",
        "max_request_size",
        "metadata_max_idle_ms",
        "partitioner",
        "partitioner_adaptive_partitioning_enable",
        "partitioner_availability_timeout_ms",
        "partitioner_class",
        "partitioner_ignore_keys",
        "partitioner_rack_aware",
        "retries",
        "transaction_timeout_ms",
        "transactional_id",
        "value_serializer",
    }
)
"""Options of a producer only."""

_STATUS = "errors are raised or logged, and health(), explain() and metrics() return the status"
_ALWAYS = "leave it out: it is always on"

INSTEAD_OF_OPTIONS: Final[dict[str, str]] = {
    "allow_create_topics": "write allow_auto_create_topics",
    "api_version_request": "leave it out: versions are negotiated with each broker",
    "auto_commit_enable": "write enable_auto_commit",
    "batch_num_messages": "write batch_size, in bytes",
    "broker_version_fallback": "leave it out: versions are negotiated with each broker",
    "buffer_timeout": "write linger_ms, in milliseconds",
    "compression_codec": "write compression_type",
    "compression_level": "write compression_gzip_level, compression_lz4_level or compression_zstd_level",
    "debug": "set the level of the logger 'pykafka2'",
    "delivery_report": "pass on_delivery to send()",
    "dr_cb": "pass on_delivery to send()",
    "dr_msg_cb": "pass on_delivery to send()",
    "enable_partition_eof": "leave it out: there is no event at the end of a partition; call lag()",
    "error_cb": f"leave it out: {_STATUS}",
    "fetch_message_max_bytes": "write max_partition_fetch_bytes",
    "fetch_wait_max_ms": "write fetch_max_wait_ms",
    "log_cb": "add a handler to the logger 'pykafka2'",
    "log_level": "set the level of the logger 'pykafka2'",
    "executor": "leave it out: the client needs no thread pool",
    "max_workers": "leave it out: the client needs no thread pool",
    "logger": "add a handler to the logger 'pykafka2'",
    "message_max_bytes": "write max_request_size",
    "message_send_max_retries": "write retries",
    "message_timeout_ms": "write delivery_timeout_ms",
    "metadata_broker_list": "write bootstrap_servers",
    "on_commit": "write default_offset_commit_callback, called as f(offsets, error)",
    "on_delivery": "pass it to each send(), which calls it as on_delivery(metadata, error)",
    "queue_buffering_max_kbytes": "write buffer_memory, in bytes",
    "queue_buffering_max_messages": "write buffer_memory, in bytes",
    "queue_buffering_max_ms": "write linger_ms",
    "queued_max_messages_kbytes": "write queued_max_bytes",
    "queued_min_messages": "leave it out, or write queued_max_bytes: the limit is in bytes, not records",
    "request_required_acks": "write acks",
    "socket_keepalive_enable": "leave it out: request_timeout_ms detects brokers that do not respond",
    "socket_nagle_disable": _ALWAYS,
    "socket_receive_buffer_bytes": "write receive_buffer_bytes",
    "socket_send_buffer_bytes": "write send_buffer_bytes",
    "socket_timeout_ms": "write request_timeout_ms",
    "statistics_interval_ms": f"leave it out: {_STATUS}",
    "stats_cb": f"leave it out: {_STATUS}",
    "sticky_partitioning_linger_ms": "leave it out: records without a key stick for batch_size bytes",
    "throttle_cb": f"leave it out: {_STATUS}",
    "topic_metadata_refresh_interval_ms": "write metadata_max_age_ms",
}
"""Options of librdkafka and confluent-kafka that have another name here or none."""

_SUBSCRIBE = "pass it to subscribe()"
_SERVERS = "write bootstrap_servers"

GUESSED: Final[dict[str, str]] = {
    "broker_list": _SERVERS,
    "brokers": _SERVERS,
    "callback": "pass on_delivery to send(), callback to commit_async()",
    "consumer_group": "write group_id",
    "deserializer": "write value_deserializer, key_deserializer or both",
    "host": _SERVERS,
    "hosts": _SERVERS,
    "listener": _SUBSCRIBE,
    "loop": "leave it out: each client has its own thread and no event loop",
    "on_assign": _SUBSCRIBE,
    "on_assigned": _SUBSCRIBE,
    "on_error": "pass on_delivery to send()",
    "on_lost": _SUBSCRIBE,
    "on_revoke": _SUBSCRIBE,
    "on_revoked": _SUBSCRIBE,
    "password": "write sasl_password",
    "pattern": _SUBSCRIBE,
    "poll_timeout_ms": "give timeout_ms to poll(); iteration has consumer_timeout_ms",
    "schema_registry_url": "pykafka2 uses no schema registry; pass a (de)serializer of your own that does",
    "serializer": "write value_serializer, key_serializer or both",
    "servers": _SERVERS,
    "ssl": "write security_protocol='SSL'",
    "timeout": "pass it to the call",
    "timeout_ms": "pass it to the call",
    "tls": "write security_protocol='SSL'",
    "topic": "topics are positional: KafkaConsumer('orders', ...), producer.send('orders', ...)",
    "topics": "topics are positional: KafkaConsumer('orders', ...), producer.send('orders', ...)",
    "user": "write sasl_username",
    "username": "write sasl_username",
}
"""Guessed names whose nearest option by spelling would be a wrong suggestion."""

_LISTED: Final = {
    f"{verb}_streams_group{rest}": "list_groups(types=['Streams']): streams groups are listed, no more"
    for verb, rest in (
        ("alter", "_offsets"),
        ("delete", "_offsets"),
        ("delete", "s"),
        ("describe", "s"),
        ("list", "_offsets"),
    )
}

_CREDENTIALS = "close() and a new client, or sasl_oauth_token_provider, which is called for each new token"
_ALTER_CONFIGS = "alter_configs({resource: {name: value}})"
_OFFSET = "a dict: {TopicPartition('orders', 0): 5} to commit, seek(partition, 5) to read from there"

INSTEAD_OF_CALLS: Final[dict[str, dict[str, str]]] = {
    "KafkaProducer": {
        "produce": "send(topic, value, key=..., on_delivery=...)",
        "produce_batch": "send_many(topic, values, keys=..., on_delivery=...)",
        "set_sasl_credentials": _CREDENTIALS,
        "poll": "Remove the call: the producer's own thread calls the callbacks",
        "send_and_wait": "send(...).result(timeout)",
        "list_topics": "partitions_for(topic), or KafkaAdminClient.list_topics()",
        "start": "Remove the call: the producer connects by itself",
        "stop": "close()",
    },
    "KafkaConsumer": {
        "consume": "poll(timeout_ms=..., max_records=...)",
        "getmany": "poll(timeout_ms=...)",
        "getone": "next(consumer)",
        "get_watermark_offsets": "beginning_offsets([partition]) and end_offsets([partition])",
        "list_topics": "topics() and partitions_for_topic(topic)",
        "consumer_group_metadata": "group_metadata()",
        "memberid": "health()['group']",
        "set_sasl_credentials": _CREDENTIALS,
        "unassign": "unsubscribe(), or assign([])",
        "start": "Remove the call: the consumer connects by itself",
        "stop": "close()",
    },
    "KafkaAdminClient": {
        **_LISTED,
        "alter_consumer_group_offsets": "alter_group_offsets(group_id, {partition: offset})",
        "delete_consumer_groups": "delete_groups(group_ids)",
        "describe_consumer_groups": "describe_groups(group_ids)",
        "get_broker_version_data": "api_versions([broker_id])",
        "incremental_alter_configs": _ALTER_CONFIGS,
        "list_consumer_group_offsets": "list_group_offsets(group_id)",
        "list_consumer_groups": "list_groups()",
        "list_partition_offsets": "list_offsets({partition: 'latest'})",
        "poll": "Remove the call: calls wait for their results",
        "remove_group_members": "remove_members(group_id, members)",
        "set_sasl_credentials": _CREDENTIALS,
    },
    "ConsumerRecord": {
        "error": "Remove the call: the consumer raises errors, and record.value is an attribute, no call",
        "set_headers": "record.headers = ...",
        "set_key": "record.key = ...",
        "set_value": "record.value = ...",
    },
    "TopicPartition": {
        "error": "Remove the check: errors are raised, or are in the result's errors",
        "metadata": "OffsetAndMetadata(offset, metadata), as in {partition: OffsetAndMetadata(5, 'note')}",
        "offset": _OFFSET,
    },
    "OffsetSpec": {
        "earliest": "OffsetSpec.EARLIEST",
        "for_timestamp": "the milliseconds themselves: list_offsets({partition: 1_700_000_000_000})",
        "latest": "OffsetSpec.LATEST",
        "max_timestamp": "OffsetSpec.MAX_TIMESTAMP",
    },
    "ConfigResource": {"Type": "ConfigResourceType, imported from pykafka2.admin"},
}
"""Calls of confluent-kafka's and aiokafka's clients and messages that have another name here or none."""


EVERY_CALL: Final = "*"

_MILLISECONDS = "timeout_ms=..., in milliseconds"
_POLL = {"num_messages": "max_records=...", "timeout": _MILLISECONDS}
_SECONDS = "timeout=..., in seconds"

INSTEAD_OF_ARGUMENTS: Final[dict[str, dict[str, dict[str, str]]]] = {
    "KafkaProducer": {
        "purge": dict.fromkeys(
            ("blocking", "in_flight", "in_queue"), "purge(), which drops the records that were never sent"
        ),
        "send": {"callback": "on_delivery=..., called as f(metadata, error)"},
    },
    "KafkaConsumer": {
        "close": {"unsubscribe": "leave_group=..."},
        "commit": {
            "asynchronous": "commit() to wait, commit_async() not to wait",
            "message": "commit({TopicPartition(m.topic, m.partition): m.offset + 1})",
        },
        "committed": {"partitions": "committed(partition), or a list of them", "timeout": _MILLISECONDS},
        "getmany": _POLL,
        "offsets_for_times": {"timeout": _MILLISECONDS},
        "poll": _POLL,
        "position": {"partitions": "position(partition), for each of them"},
        "store_offsets": {"message": "store_offsets(record)"},
        "subscribe": {
            "on_assign": "on_assigned=..., called as f(partitions)",
            "on_revoke": "on_revoked=..., called as f(partitions)",
        },
    },
    "KafkaAdminClient": {
        EVERY_CALL: {"operation_timeout": _SECONDS, "request_timeout": _SECONDS},
        "create_partitions": {"new_partitions": "create_partitions({'orders': 6})"},
        "describe_configs": {"broker": "ConfigResource('broker', broker_id)"},
        "elect_leaders": {"election_type": "unclean=True, or nothing for the preferred replicas"},
        "list_topics": {"topic": "describe_topics([topic])"},
    },
    "TopicPartition": {
        "__new__": {
            "leader_epoch": "OffsetAndMetadata(offset, metadata, leader_epoch)",
            "metadata": "OffsetAndMetadata(offset, metadata)",
            "offset": _OFFSET,
        },
    },
    "NewTopic": {"__init__": {"config": "configs=...", "replica_assignment": "assignment={0: [1, 2], ...}"}},
    "NewPartitions": {"__init__": {"new_total_count": "create_partitions({'orders': 6})"}},
    "ConfigResource": {"__init__": dict.fromkeys(("incremental_configs", "set_config"), _ALTER_CONFIGS)},
}
"""Arguments of confluent-kafka's calls that have another name here, by class and call."""

_AIO = "imported from pykafka2.aio"
_ADMIN = "imported from pykafka2.admin"
_SCHEMAS = "with a value_serializer or value_deserializer of your own: there is no schema registry"

INSTEAD_OF_CLASSES: Final[dict[str, str]] = {
    "AIOConsumer": f"KafkaConsumer, {_AIO}",
    "AIOKafkaConsumer": f"KafkaConsumer, {_AIO}",
    "AIOKafkaProducer": f"KafkaProducer, {_AIO}",
    "AIOProducer": f"KafkaProducer, {_AIO}",
    "AclBindingFilter": f"ACLFilter, {_ADMIN}",
    "AclOperation": f"ACLOperation, {_ADMIN}",
    "AclPermissionType": f"ACLPermissionType, {_ADMIN}",
    "AdminClient": "KafkaAdminClient",
    "AlterConfigOpType": f"AlterConfigOp, {_ADMIN}",
    "AvroDeserializer": f"KafkaConsumer, {_SCHEMAS}",
    "AvroSerializer": f"KafkaProducer, {_SCHEMAS}",
    "ConfigSource": f"ConfigSourceType, {_ADMIN}",
    "Consumer": "KafkaConsumer, which takes the same dict of options",
    "ConsumerGroupState": f"GroupState, {_ADMIN}",
    "ConsumerGroupTopicPartitions": "KafkaAdminClient, whose alter_group_offsets('g', offsets) takes both",
    "ConsumerGroupType": f"GroupType, {_ADMIN}",
    "DeserializingConsumer": "KafkaConsumer, with key_deserializer and value_deserializer",
    "ElectionType": "KafkaAdminClient, whose elect_leaders(partitions) takes unclean=True",
    "JSONDeserializer": f"KafkaConsumer, {_SCHEMAS}",
    "JSONSerializer": f"KafkaProducer, {_SCHEMAS}",
    "KafkaClient": "KafkaProducer, KafkaConsumer or KafkaAdminClient",
    "KafkaException": "KafkaError, the base of all errors in pykafka2.errors",
    "Message": "ConsumerRecord, whose fields are attributes",
    "OFFSET_BEGINNING": "KafkaConsumer, whose seek_to_beginning(partition) starts there",
    "OFFSET_END": "KafkaConsumer, whose seek_to_end(partition) starts there",
    "OFFSET_STORED": "KafkaConsumer, which starts at the committed offset by default",
    "Producer": "KafkaProducer, which takes the same dict of options",
    "ProtobufDeserializer": f"KafkaConsumer, {_SCHEMAS}",
    "ProtobufSerializer": f"KafkaProducer, {_SCHEMAS}",
    "ResourcePatternType": f"ACLResourcePatternType, {_ADMIN}",
    "SchemaRegistryClient": f"KafkaProducer, {_SCHEMAS}",
    "SerializingProducer": "KafkaProducer, with key_serializer and value_serializer",
    "StringDeserializer": "KafkaConsumer, with value_deserializer=bytes.decode",
    "StringSerializer": "KafkaProducer, with value_serializer=str.encode",
    "TopicCollection": "KafkaAdminClient, whose describe_topics(['orders']) takes a list of names",
    "UserScramCredentialAlteration": f"UserScramCredentialUpsertion or UserScramCredentialDeletion, {_ADMIN}",
}
"""Names of confluent-kafka, aiokafka and kafka-python, and what programs import from pykafka2 instead."""


def no_such_name(package: str, name: str) -> AttributeError | ImportError:
    """Return the error for a name that a package such as pykafka2.admin does not have.

    kafka-python's programs import public names from kafka.admin, kafka.consumer and kafka.producer, those of
    aiokafka from aiokafka.
    """
    if name in INSTEAD_OF_CLASSES:
        return ImportError(f"{package} has no {name!r}. Use {INSTEAD_OF_CLASSES[name]}", name=package)
    if name in sys.modules["pykafka2"].__all__:
        return ImportError(f"{package} has no {name!r}. Write from pykafka2 import {name}", name=package)
    return AttributeError(f"module {package!r} has no attribute {name!r}")


def explain_arguments(error: TypeError, owner: object, call: str, names: Iterable[str]) -> None:
    """Add our names to Python's error about arguments that only another client's `call` has."""
    kind = owner if isinstance(owner, type) else type(owner)
    instead: dict[str, str] = {}
    for base in kind.__mro__:
        calls = INSTEAD_OF_ARGUMENTS.get(base.__name__, {})
        instead = {**calls.get(EVERY_CALL, {}), **calls.get(call, {}), **instead}
    more = [f"instead of {name} use {instead[name]}" for name in names if name in instead]
    text = _named_after_client(str(error), kind, call)
    if more or text != str(error):
        error.args = ("; ".join(filter(None, (text, ", and ".join(more)))),)


def _named_after_client(text: str, kind: type, call: str) -> str:
    """Replace the name of the class in Python's error by that of the application's subclass."""
    ours = kind.__name__ if call in ("__init__", "__new__") else f"{kind.__name__}.{call}"
    defined = getattr(getattr(kind, call), "__qualname__", ours)
    return f"{ours}{text.removeprefix(defined)}" if text.startswith(f"{defined}()") else text


def unexpected_argument(owner: object, call: str, name: str) -> TypeError:
    """Return the error for an argument that a call accepts only to reject it, where a wrapper is too slow."""
    kind = owner if isinstance(owner, type) else type(owner)
    error = TypeError(f"{getattr(kind, call).__qualname__}() got an unexpected argument {name!r}")
    explain_arguments(error, owner, call, [name])
    return error


def explaining(method: F) -> F:
    """Decorate a method so that its errors about another client's arguments name ours."""
    if iscoroutinefunction(method):

        @wraps(method)
        async def awaited(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return await method(self, *args, **kwargs)
            except TypeError as error:
                explain_arguments(error, self, method.__name__, kwargs)
                raise

        return cast(F, awaited)

    @wraps(method)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except TypeError as error:
            explain_arguments(error, self, method.__name__, kwargs)
            raise

    return cast(F, called)


def explaining_creation(kind: C) -> C:
    """Decorate a class of values so that its `__init__` is `explaining`."""
    created: Any = kind
    created.__init__ = explaining(created.__init__)
    return kind


def explaining_all(client: C) -> C:
    """Decorate a class so that all its public methods are `explaining`."""
    for name in dir(client):
        method = getattr(client, name)
        if isfunction(method) and not name.startswith("_"):
            setattr(client, name, explaining(method))
    return client


def instead_of_option(name: str) -> str | None:
    """Return the advice for an unknown option, or None."""
    if name in OF_A_CONSUMER:
        return f"{name} is an option of KafkaConsumer"
    if name in OF_A_PRODUCER:
        return f"{name} is an option of KafkaProducer"
    return INSTEAD_OF_OPTIONS.get(name) or GUESSED.get(name)


def no_such_attribute(owner: object, name: str) -> AttributeError:
    """Return the error for an unknown name: Python's words, and what to write instead if known."""
    kind = owner if isinstance(owner, type) else type(owner)
    what = f"type object {kind.__name__!r}" if kind is owner else f"{kind.__name__!r} object"
    for base in kind.__mro__:
        instead = INSTEAD_OF_CALLS.get(base.__name__, {}).get(name)
        if instead is not None:
            break
    if instead is None:
        more = ""
    elif instead.startswith("Remove"):
        more = f". {instead}"
    else:
        more = f". Use {instead}"
    return AttributeError(f"{what} has no attribute {name!r}{more}", name=name, obj=owner)


class ForeignCall:
    """A class attribute that does not exist: its error names ours.

    An instance can have an attribute of that name, such as a mock; `__set__` also keeps `inspect` from
    listing this as a method.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, owner: object, kind: type) -> Any:
        own = getattr(owner, "__dict__", {})
        if self._name in own:
            return own[self._name]
        raise no_such_attribute(kind if owner is None else owner, self._name)

    def __set__(self, owner: object, value: object) -> None:
        if not hasattr(owner, "__dict__"):
            raise no_such_attribute(owner, self._name)
        vars(owner)[self._name] = value


def with_foreign_calls(cls: C) -> C:
    """Decorate a class so that the error for a call that only other clients have names ours.

    A `__getattr__` would do the same, but it slows every attribute of the class on CPython 3.11: reading a
    field of a record takes six times as long.
    """
    for name in INSTEAD_OF_CALLS[cls.__name__]:
        if not hasattr(cls, name):
            setattr(cls, name, ForeignCall(name))
    return cls
