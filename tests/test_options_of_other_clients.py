"""Errors about options, calls and arguments of other clients name ours."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import re
import warnings
from typing import Any

import pytest

import pykafka2
from pykafka2 import (
    ConsumerRecord,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    TopicPartition,
    admin,
    aio,
)
from pykafka2.admin import ConfigResource, NewPartitions, NewTopic, OffsetSpec
from pykafka2.consumer.options import CONSUMER_OPTIONS
from pykafka2.errors import ConfigurationError, IllegalArgument, UnknownOption
from pykafka2.options import IgnoredOption
from pykafka2.other_clients import (
    EVERY_CALL,
    GUESSED,
    INSTEAD_OF_ARGUMENTS,
    INSTEAD_OF_CALLS,
    INSTEAD_OF_CLASSES,
    INSTEAD_OF_OPTIONS,
    OF_A_CONSUMER,
    OF_A_PRODUCER,
    explain_arguments,
)
from pykafka2.producer.options import PRODUCER_OPTIONS
from pykafka2.testing import KafkaCluster

KNOWN = {*CONSUMER_OPTIONS.fields, *PRODUCER_OPTIONS.fields}


def test_options_of_one_client_are_listed_for_the_other() -> None:
    assert {*CONSUMER_OPTIONS.fields} - {*PRODUCER_OPTIONS.fields} == OF_A_CONSUMER
    assert {*PRODUCER_OPTIONS.fields} - {*CONSUMER_OPTIONS.fields} == OF_A_PRODUCER


def test_recommended_options_and_calls_exist_and_the_foreign_ones_do_not() -> None:
    assert not INSTEAD_OF_OPTIONS.keys() & GUESSED.keys()
    for name, instead in {**INSTEAD_OF_OPTIONS, **GUESSED}.items():
        assert name not in KNOWN
        named = re.findall(r"(?:write|or) ([a-z_]+)", instead)
        assert {one for one in named if "_" in one} <= KNOWN, name
    clients = {
        "KafkaProducer": KafkaProducer,
        "KafkaConsumer": KafkaConsumer,
        "KafkaAdminClient": KafkaAdminClient,
        "ConsumerRecord": ConsumerRecord,
        "TopicPartition": TopicPartition,
        "OffsetSpec": OffsetSpec,
        "ConfigResource": ConfigResource,
    }
    assert clients.keys() == INSTEAD_OF_CALLS.keys()
    for client, calls in INSTEAD_OF_CALLS.items():
        for name, instead in calls.items():
            assert not hasattr(clients[client], name)
            for call in re.findall(r"(?<![.\w])([a-z_]+)\(", instead):
                assert any(hasattr(one, call) for one in clients.values()) or call == "next", instead


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"group.id": "g"}, "there is no option 'group.id'; group_id is an option of KafkaConsumer"),
        ({"message.timeout.ms": 5}, "no option 'message.timeout.ms'; write delivery_timeout_ms"),
        ({"on_delivery": print}, r"no option 'on_delivery'; pass it to each send\(\)"),
        ({"linger": 5}, "no option 'linger'; the nearest is 'linger_ms'"),
        ({"max_workers": 4}, "no option 'max_workers'; leave it out: the client needs no thread pool"),
        ({"executor": None}, "no option 'executor'; leave it out: the client needs no thread pool"),
        ({"buffer_timeout": 1.0}, "no option 'buffer_timeout'; write linger_ms, in milliseconds"),
    ],
)
def test_option_of_another_client_recommends_ours(options: dict[str, object], words: str) -> None:
    with pytest.raises(UnknownOption, match=words):
        KafkaProducer(options)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("topic", r"; topics are positional: KafkaConsumer\('orders', \.\.\.\)"),
        ("brokers", "; write bootstrap_servers"),
        ("password", "; write sasl_password"),
        ("consumer_group", "; write group_id"),
        ("on_revoked", r"; pass it to subscribe\(\)"),
        ("auto_commit", "; the nearest is 'enable_auto_commit'"),
        ("encoding", "no option 'encoding'; see the option reference$"),
    ],
)
def test_guessed_option_recommends_the_meant_one_or_nothing(name: str, words: str) -> None:
    with pytest.raises(UnknownOption, match=words):
        KafkaConsumer({name: "value"})


@pytest.mark.parametrize(
    ("word", "ours"),
    [("smallest", "earliest"), ("Beginning", "earliest"), ("end", "latest"), ("error", "none")],
)
def test_foreign_names_of_reset_policies_recommend_ours(word: str, ours: str) -> None:
    with pytest.raises(
        ConfigurationError, match=f"write '{ours}'; '{word.lower()}' is its name in other clients"
    ):
        KafkaConsumer(auto_offset_reset=word)


def test_options_of_a_producer_are_none_of_a_consumer() -> None:
    with pytest.raises(UnknownOption, match="no option 'acks'; acks is an option of KafkaProducer"):
        KafkaConsumer({"acks": "all"})


def test_an_address_alone_is_no_mapping_of_options() -> None:
    with pytest.raises(
        ConfigurationError, match=r"not 'localhost:9092'; .* bootstrap_servers='localhost:9092'"
    ):
        KafkaProducer("localhost:9092")  # type: ignore[arg-type, call-overload]


def test_unused_password_warns_without_its_value() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        KafkaProducer(sasl_plain_username="ada", sasl_plain_password="s3cret").close()
    assert [one.category for one in caught] == [IgnoredOption]
    assert (
        "sasl_username, sasl_password are ignored: security_protocol='PLAINTEXT' does not authenticate"
        in str(caught[0].message)
    )
    assert "s3cret" not in str(caught[0].message)


def test_calls_of_a_producer() -> None:
    with KafkaProducer() as producer:
        with pytest.raises(AttributeError, match=r"no attribute 'produce'\. Use send\(topic, value"):
            producer.produce("orders", b"x")  # type: ignore[attr-defined]
        with pytest.raises(IllegalArgument, match="a topic must be a str, not b'value'"):
            producer.send(b"value", "orders")  # type: ignore[arg-type]


def test_foreign_calls_on_subclasses_recommend_those_of_the_client() -> None:
    class Producer(KafkaProducer):
        pass

    class Consumer(KafkaConsumer[bytes, bytes]):
        pass

    with Producer() as producer, Consumer() as consumer:
        with pytest.raises(AttributeError, match=r"'Producer' object has no attribute 'produce'\. Use send"):
            producer.produce("orders", b"x")  # type: ignore[attr-defined]
        with pytest.raises(AttributeError, match=r"'Consumer' object has no attribute 'consume'\. Use poll"):
            consumer.consume()  # type: ignore[attr-defined]


def test_foreign_call_without_a_counterpart_recommends_removal() -> None:
    with KafkaProducer() as producer, pytest.raises(AttributeError, match=r"'poll'\. Remove the call: the"):
        producer.poll(0)


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("Producer", "KafkaProducer"),
        ("Consumer", "KafkaConsumer"),
        ("AdminClient", "KafkaAdminClient"),
        ("AIOKafkaConsumer", "KafkaConsumer"),
        ("KafkaException", "KafkaError"),
        ("OFFSET_BEGINNING", "KafkaConsumer, whose seek_to_beginning"),
        ("OFFSET_END", "KafkaConsumer, whose seek_to_end"),
        ("OFFSET_STORED", "KafkaConsumer, which starts"),
        ("AIOProducer", "KafkaProducer, imported from pykafka2.aio"),
        ("ElectionType", "KafkaAdminClient, whose elect_leaders"),
        ("StringSerializer", "KafkaProducer, with value_serializer=str.encode"),
    ],
)
def test_importing_another_clients_class_names_ours(name: str, ours: str) -> None:
    with pytest.raises(ImportError, match=rf"pykafka2 has no '{name}'\. Use {ours}"):
        exec(f"from pykafka2 import {name}")


@pytest.mark.parametrize(("package", "name"), [("consumer", "KafkaConsumer"), ("producer", "KafkaProducer")])
def test_importing_from_kafka_pythons_packages_names_the_import(package: str, name: str) -> None:
    with pytest.raises(
        ImportError, match=rf"pykafka2\.{package} has no '{name}'\. Write from pykafka2 import"
    ):
        exec(f"from pykafka2.{package} import {name}")
    with pytest.raises(ImportError, match="cannot import name 'NoSuchName'"):
        exec(f"from pykafka2.{package} import NoSuchName")


@pytest.mark.parametrize("name", ["Consumer", "Producer"])
def test_class_of_another_client_is_no_attribute(name: str) -> None:
    assert not hasattr(pykafka2, name)
    assert getattr(pykafka2, name, None) is None
    with pytest.raises(AttributeError, match=rf"pykafka2 has no '{name}'\. Use Kafka{name}"):
        getattr(pykafka2, name)


@pytest.mark.parametrize(
    ("package", "name", "ours"),
    [
        ("aio", "AIOProducer", "KafkaProducer, imported from pykafka2.aio"),
        ("aio", "AIOConsumer", "KafkaConsumer, imported from pykafka2.aio"),
        ("admin", "AclBindingFilter", "ACLFilter, imported from pykafka2.admin"),
        ("admin", "ConfigSource", "ConfigSourceType, imported from pykafka2.admin"),
    ],
)
def test_importing_from_a_package_names_our_class(package: str, name: str, ours: str) -> None:
    with pytest.raises(ImportError, match=rf"pykafka2\.{package} has no '{name}'\. Use {ours}"):
        exec(f"from pykafka2.{package} import {name}")


def test_recommended_classes_exist() -> None:
    for name, instead in INSTEAD_OF_CLASSES.items():
        assert name not in pykafka2.__all__
        assert name not in admin.__all__
        home = admin if "pykafka2.admin" in instead else pykafka2
        assert re.split("[,; ]", instead)[0] in home.__all__, name
    with pytest.raises(AttributeError, match="module 'pykafka2' has no attribute 'KafkaProduser'"):
        _ = pykafka2.KafkaProduser  # type: ignore[attr-defined]


def test_arguments_of_confluent_kafkas_calls_are_explained() -> None:
    with KafkaConsumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}) as consumer:
        for call, words in (
            (
                lambda: consumer.subscribe(["orders"], on_assign=print),
                r"instead of on_assign use on_assigned=\.\.\.",
            ),
            (
                lambda: consumer.subscribe(["orders"], on_revoke=print, on_assign=print),
                "instead of on_revoke use on_revoked=.*, and instead of on_assign use on_assigned=",
            ),
            (lambda: consumer.poll(timeout=1.0), "instead of timeout use timeout_ms=..., in milliseconds"),
            (lambda: consumer.commit(message=None, asynchronous=False), r"instead of message use commit\(\{"),
            (lambda: consumer.store_offsets(message=None), r"instead of message use store_offsets\(record\)"),
            (lambda: consumer.subscribe(["orders"], unknown=1), "unexpected keyword argument 'unknown'$"),
        ):
            with pytest.raises(TypeError, match=words):
                call()


ORDERS = TopicPartition("orders", 0)
UNREACHABLE: Any = {"bootstrap_servers": "127.0.0.1:1"}
FOREIGN_ARGUMENTS = [
    (client, call, name)
    for client in ("KafkaProducer", "KafkaConsumer", "KafkaAdminClient")
    for call, names in INSTEAD_OF_ARGUMENTS[client].items()
    for name in names
]


@pytest.mark.parametrize(("client", "call", "name"), FOREIGN_ARGUMENTS)
def test_each_argument_of_another_client_is_explained(client: str, call: str, name: str) -> None:
    """By the sync and by the asyncio client."""
    for kind in (getattr(pykafka2, client), getattr(aio, client)):
        if hasattr(kind, call) or call == EVERY_CALL:  # getmany is aiokafka's
            owner = kind(**UNREACHABLE)
            method = getattr(owner, "delete_topics" if call == EVERY_CALL else call)
            required = [
                one.name
                for one in inspect.signature(method).parameters.values()
                if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD
            ]
            with pytest.raises(
                TypeError,
                match=rf"^{client}\.{method.__name__}\(\) .*unexpected .*argument.*instead of {name} use ",
            ):
                run(method, **{**dict.fromkeys(required, ()), name: 5})
            run(owner.close)


def run(method: Any, **arguments: object) -> None:
    """Call a method of a sync or an asyncio client."""
    result = method(**arguments)
    if inspect.isawaitable(result):

        async def awaited() -> None:
            await result

        asyncio.run(awaited())


def test_every_call_of_the_admin_client_explains_confluent_kafkas_timeouts() -> None:
    with KafkaAdminClient(**UNREACHABLE) as client:
        for name in dir(KafkaAdminClient):
            if not name.startswith("_"):
                with pytest.raises(
                    TypeError, match=r"instead of operation_timeout use timeout=\.\.\., in seconds"
                ):
                    getattr(client, name)(operation_timeout=5)


def test_further_arguments_of_a_topic_partition_are_refused() -> None:
    for kwargs in ({"leader_epoch": 5}, {"metadata": "note"}, {"offset": 0}):
        with pytest.raises(TypeError, match=next(iter(kwargs))):
            TopicPartition("orders", 0, **kwargs)  # type: ignore[call-arg]


def test_offset_in_a_topic_partition_names_the_places_of_offsets() -> None:
    new: Any = TopicPartition
    words = r"^TopicPartition\(\) got an unexpected argument 'offset'; instead of offset use a dict: "
    words += r"\{TopicPartition\('orders', 0\): 5\} to commit, seek"
    for create in (lambda: new("orders", 0, 5), lambda: new("orders", 0, offset=5)):
        with pytest.raises(TypeError, match=words):
            create()
    with pytest.raises(TypeError, match="instead of metadata use OffsetAndMetadata"):
        new("orders", 0, metadata="note")
    with pytest.raises(TypeError, match=r"TopicPartition.__new__\(\) missing 1 required .* 'partition'"):
        new("orders")
    with pytest.raises(AttributeError, match=r"no attribute 'offset'\. Use a dict"):
        _ = new("orders", 0).offset
    with pytest.raises(AttributeError, match=r"no attribute 'offset'\. Use a dict"):
        new("orders", 0).offset = 5
    assert pickle.loads(pickle.dumps(ORDERS)) == ORDERS == ("orders", 0)
    assert ORDERS._replace(partition=1) == TopicPartition(partition=1, topic="orders")


def test_values_of_confluent_kafkas_admin_client_name_ours() -> None:
    new: Any = NewPartitions
    with pytest.raises(IllegalArgument, match=r"it has no topic\. Use create_partitions\(\{'a1': 3\}\)"):
        new("a1", 3)
    with (
        KafkaAdminClient(**UNREACHABLE) as client,
        pytest.raises(IllegalArgument, match=r"not a list; use create_partitions\(\{'orders': 6\}\)"),
    ):
        client.create_partitions([])  # type: ignore[arg-type]
    spec: Any = OffsetSpec
    with pytest.raises(AttributeError, match=r"no attribute 'latest'\. Use OffsetSpec\.LATEST"):
        spec.latest()
    with pytest.raises(
        AttributeError, match=r"no attribute 'for_timestamp'\. Use the milliseconds themselves"
    ):
        spec.for_timestamp(5)
    with pytest.raises(AttributeError, match=r"no attribute 'nearest'$"):
        spec.nearest()
    assert (OffsetSpec.LATEST, OffsetSpec["EARLIEST"]) == (-1, -2)
    with pytest.raises(TypeError, match=r"^NewTopic\(\) .*instead of replica_assignment use assignment="):
        NewTopic("orders", 3, replica_assignment=[[0]])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^NewPartitions\(\) .*instead of new_total_count use create_part"):
        new("orders", new_total_count=3)
    resource: Any = ConfigResource
    for name in ("incremental_configs", "set_config"):
        with pytest.raises(TypeError, match=rf"^ConfigResource\(\) .*instead of {name} use alter_configs\("):
            resource("topic", "orders", **{name: []})
    with pytest.raises(AttributeError, match=r"no attribute 'Type'\. Use ConfigResourceType"):
        _ = resource.Type.TOPIC
    assert pickle.loads(pickle.dumps(resource("topic", "orders"))) == resource("topic", "orders")


def test_errors_about_arguments_name_the_client_and_not_a_mixin() -> None:
    class Mine(KafkaConsumer[bytes, bytes]):
        pass

    with Mine(**UNREACHABLE, group_id="g") as consumer:
        for call in ("commit", "subscribe", "end_offsets", "poll"):
            with pytest.raises(TypeError, match=rf"^Mine\.{call}\(\) got an unexpected .* 'unknown'$"):
                getattr(consumer, call)(unknown=5)
    with (
        KafkaAdminClient(**UNREACHABLE) as client,
        pytest.raises(TypeError, match=r"^KafkaAdminClient\.list_topics\(\) takes 1 positional argument"),
    ):
        client.list_topics("orders")  # type: ignore[call-arg]


def test_type_error_of_an_applications_function_keeps_its_text() -> None:
    def on_assigned(only: object, more: object) -> None: ...

    with KafkaConsumer(**UNREACHABLE, group_id="g") as consumer:
        error = TypeError("on_assigned() missing 1 required positional argument: 'more'")
        explain_arguments(error, consumer, "commit", ["more"])
        assert str(error) == "on_assigned() missing 1 required positional argument: 'more'"


@pytest.mark.parametrize(
    ("client", "call", "ours"),
    [
        ("KafkaProducer", "produce", "send"),
        ("KafkaProducer", "poll", "Remove the call"),
        ("KafkaConsumer", "consume", "poll"),
        ("KafkaConsumer", "memberid", "health"),
        ("KafkaAdminClient", "list_consumer_groups", "list_groups"),
    ],
)
def test_foreign_calls_of_the_asyncio_clients_recommend_ours(client: str, call: str, ours: str) -> None:
    kind = getattr(aio, client)
    assert not hasattr(kind, call)
    owner = kind(**UNREACHABLE)
    with pytest.raises(AttributeError, match=rf"'{client}' object has no attribute '{call}'\. .*{ours}"):
        getattr(owner, call)
    assert call not in dict(inspect.getmembers(kind, inspect.isroutine))
    setattr(owner, call, print)
    assert getattr(owner, call) is print
    run(owner.close)


@pytest.mark.parametrize("seconds", [1.0, 0.5, 0.1, 10.0])
def test_poll_with_a_timeout_like_seconds_warns_at_the_callers_line(seconds: float) -> None:
    cluster = KafkaCluster(brokers=1, topics=["orders"])
    with cluster, KafkaConsumer("orders", bootstrap_servers=cluster.bootstrap_servers) as consumer:
        words = f"waits {seconds:g} ms.*write timeout_ms={seconds * 1000:g};"
        with pytest.warns(UserWarning, match=words) as warned:
            consumer.poll(seconds)
        with pytest.warns(UserWarning, match=words):
            consumer.poll_columns(seconds)
        assert {one.filename for one in warned} == {__file__}


def test_poll_with_milliseconds_does_not_warn() -> None:
    cluster = KafkaCluster(brokers=1, topics=["orders"])
    with warnings.catch_warnings(), cluster:
        warnings.simplefilter("error")
        consumer = KafkaConsumer("orders", bootstrap_servers=cluster.bootstrap_servers)
        for timeout in (0, 1, 0.0, 20, 1.2345, 100.0):
            consumer.poll(timeout)
        consumer.close()


def test_calls_of_confluent_kafkas_messages_name_the_records_attributes() -> None:
    record: Any = ConsumerRecord("orders", 0, 5, 0, 0, b"k", b"v", [])
    with pytest.raises(
        AttributeError, match=r"no attribute 'error'. Remove the call: the consumer raises errors"
    ):
        record.error()
    with pytest.raises(AttributeError, match=r"no attribute 'set_value'. Use record.value = \.\.\."):
        record.set_value(b"w")
    with pytest.raises(AttributeError, match=r"'ConsumerRecord' object has no attribute 'nothing'$"):
        _ = record.nothing
    assert not hasattr(record, "__array__")


@pytest.mark.parametrize(
    "kind", [ConsumerRecord, KafkaProducer, KafkaConsumer, aio.KafkaProducer, aio.KafkaConsumer]
)
def test_foreign_calls_do_not_slow_every_attribute_by_a_getattr(kind: type) -> None:
    assert not [base for base in kind.__mro__ if "__getattr__" in vars(base)]
    foreign = [name for name in INSTEAD_OF_CALLS[kind.__name__] if not hasattr(kind, name)]
    assert foreign
    for name in foreign:
        with pytest.raises(AttributeError, match=rf"'{name}'\. (Use|Remove) "):
            getattr(kind, name)
