"""AlterClientQuotas and DescribeClientQuotas: Kafka's error codes and messages for invalid requests."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2.errors import name_of
from pykafka2.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    ComponentData,
    DescribeClientQuotasRequest,
    OpData,
)
from pykafka2.testing.cluster import KafkaCluster
from tests.broker.support.raw_client import RawClient

EXACT, DEFAULT, ANY = range(3)
Entity = dict[str, str | None]
ANN: Entity = {"user": "ann"}
ADDRESS: Entity = {"ip": "127.0.0.9"}


def entry(entity: Entity, *values: tuple[str, float | None]) -> AlterClientQuotasRequestEntryData:
    return AlterClientQuotasRequestEntryData(
        entity=[
            AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name)
            for kind, name in entity.items()
        ],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values],
    )


def altered(wire: RawClient, *entries: AlterClientQuotasRequestEntryData) -> list[tuple[str, str | None]]:
    response = wire.call(AlterClientQuotasRequest(entries=list(entries), validate_only=False), 1)
    return [(name_of(one.error_code), one.error_message) for one in response.entries]


def described(wire: RawClient, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    parts = [
        ComponentData(entity_type=kind, match_type=match_type, match=match)
        for kind, match_type, match in components
    ]
    return wire.call(DescribeClientQuotasRequest(components=parts, strict=strict), 1)


REFUSED: list[tuple[Entity, str, float, str]] = [
    ({}, "producer_byte_rate", 5.0, "Invalid empty client quota entity"),
    ({"group": "g"}, "producer_byte_rate", 5.0, "Unhandled client quota entity type: group"),
    ({"user": ""}, "producer_byte_rate", 5.0, "Empty user not supported"),
    ({"client-id": ""}, "producer_byte_rate", 5.0, "Empty client-id not supported"),
    (
        {**ANN, **ADDRESS},
        "producer_byte_rate",
        5.0,
        "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
    ),
    ({"ip": "nowhere"}, "connection_creation_rate", 5.0, "nowhere is not a valid IP or resolvable host."),
    (ANN, "connection_creation_rate", 5.0, "Invalid configuration key connection_creation_rate"),
    (ADDRESS, "producer_byte_rate", 5.0, "Invalid configuration key producer_byte_rate"),
    (ANN, "request_percentage", 0.0, "Quota request_percentage must be greater than 0"),
    (ANN, "consumer_byte_rate", 1.01, "consumer_byte_rate cannot be a fractional value."),
    (ANN, "producer_byte_rate", 1e30, "Proposed value for producer_byte_rate is too large for a LONG."),
    (
        ADDRESS,
        "connection_creation_rate",
        3e9,
        "Proposed value for connection_creation_rate is too large for an INT.",
    ),
]


@pytest.mark.kafka(brokers=1)
def test_invalid_alteration_gets_invalid_request_with_its_reason(kafka_cluster: KafkaCluster) -> None:
    with RawClient(kafka_cluster.bootstrap_servers) as wire:
        for entity, key, value, message in REFUSED:
            assert altered(wire, entry(entity, (key, value))) == [("INVALID_REQUEST", message)]
        duplicate = "Ignoring duplicate entity ClientQuotaEntity(entries={client-id=null})"
        default: Entity = {"client-id": None}
        twice = [("producer_byte_rate", 5.0), ("producer_byte_rate", 6.0)]
        assert altered(wire, entry(default, *twice)) == [("INVALID_REQUEST", duplicate)]
        values = entry(default, twice[0]), entry(default, ("consumer_byte_rate", 5.0))
        assert altered(wire, *values) == [("INVALID_REQUEST", duplicate)]
    stored = [name for one in kafka_cluster.controls.quotas() for name in one if name != "quotas"]
    assert not {"user", "ip"} & set(stored)


@pytest.mark.kafka(brokers=1)
def test_fractions_localhost_and_default_addresses_are_accepted(kafka_cluster: KafkaCluster) -> None:
    with RawClient(kafka_cluster.bootstrap_servers) as wire:
        accepted = [
            entry(ANN, ("request_percentage", 0.5), ("controller_mutation_rate", 0.25)),
            entry(ANN | {"client-id": "app"}, ("producer_byte_rate", 5.0 + 1e-7)),
            entry({"ip": "localhost"}, ("connection_creation_rate", 1e6)),
            entry({"ip": None}, ("connection_creation_rate", 1e6)),
            entry({"ip": "::1"}, ("connection_creation_rate", 1e6)),
        ]
        assert altered(wire, *accepted) == [("NONE", None)] * 5


@pytest.mark.kafka(brokers=1)
def test_invalid_filter_gets_its_error(kafka_cluster: KafkaCluster) -> None:
    refused: list[tuple[list[tuple[str, int, str | None]], str, str]] = [
        ([("", ANY, None)], "INVALID_REQUEST", "Invalid empty entity type."),
        ([("group", ANY, None)], "UNSUPPORTED_VERSION", "Unsupported entity type group"),
        (
            [("user", ANY, None), ("user", EXACT, "ann")],
            "INVALID_REQUEST",
            "Entity type user cannot appear more than once in the filter.",
        ),
        (
            [("user", EXACT, None)],
            "INVALID_REQUEST",
            "Request specified MATCH_TYPE_EXACT, but set match string to null.",
        ),
        (
            [("user", DEFAULT, "ann")],
            "INVALID_REQUEST",
            "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
        ),
        (
            [("user", ANY, "ann")],
            "INVALID_REQUEST",
            "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
        ),
        ([("user", 9, None)], "INVALID_REQUEST", "Unknown match type 9"),
        (
            [("user", ANY, None), ("ip", ANY, None)],
            "INVALID_REQUEST",
            "Invalid entity filter component combination. IP filter component should not be used with user "
            "or clientId filter component.",
        ),
    ]
    with RawClient(kafka_cluster.bootstrap_servers) as wire:
        for components, code, message in refused:
            response = described(wire, *components)
            assert (name_of(response.error_code), response.error_message, response.entries) == (
                code,
                message,
                None,
            )


@pytest.mark.kafka(brokers=1)
def test_strict_filter_leaves_out_entities_of_more_types(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.controls.set_quota(user="ann", producer_byte_rate=5)
    kafka_cluster.controls.set_quota(user="ann", client_id="<default>", producer_byte_rate=6)
    with RawClient(kafka_cluster.bootstrap_servers) as wire:
        for strict, values in ((False, [5.0, 6.0]), (True, [5.0])):
            entries = described(wire, ("user", EXACT, "ann"), strict=strict).entries
            assert sorted(one.values[0].value for one in entries) == values
