"""Quotas of clients: DescribeClientQuotas, AlterClientQuotas (KIP-546).

Sent to the controller through any broker.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Bool, Float64, Int8, Int16, Int32, String, field
from pykafka2.protocol.struct import Request, Response, Struct


class ComponentData(Struct):
    entity_type: String
    match_type: Int8
    match: String | None = field(nullable="0+")


class DescribeClientQuotasRequest(
    Request["DescribeClientQuotasResponse"], api_key=48, versions="0-1", flexible="1+"
):
    """Describe quotas by user, client id and IP address."""

    components: list[ComponentData]
    strict: Bool


class DescribeClientQuotasResponseEntityData(Struct):
    entity_type: String
    entity_name: String | None = field(nullable="0+")


class ValueData(Struct):
    key: String
    value: Float64


class DescribeClientQuotasResponseEntryData(Struct):
    entity: list[DescribeClientQuotasResponseEntityData]
    values: list[ValueData]


class DescribeClientQuotasResponse(Response, api_key=48, versions="0-1", flexible="1+"):
    """Entities with their quotas; null if none matched."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default="", nullable="0+")
    entries: list[DescribeClientQuotasResponseEntryData] | None = field(nullable="0+")


class AlterClientQuotasRequestEntityData(Struct):
    entity_type: String
    entity_name: String | None = field(nullable="0+")


class OpData(Struct):
    key: String
    value: Float64
    remove: Bool


class AlterClientQuotasRequestEntryData(Struct):
    entity: list[AlterClientQuotasRequestEntityData]
    ops: list[OpData]


class AlterClientQuotasRequest(
    Request["AlterClientQuotasResponse"], api_key=49, versions="0-1", flexible="1+"
):
    """Set or delete quotas of entities."""

    entries: list[AlterClientQuotasRequestEntryData]
    validate_only: Bool


class AlterClientQuotasResponseEntityData(Struct):
    entity_type: String
    entity_name: String | None = field(nullable="0+")


class AlterClientQuotasResponseEntryData(Struct):
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default="", nullable="0+")
    entity: list[AlterClientQuotasResponseEntityData]


class AlterClientQuotasResponse(Response, api_key=49, versions="0-1", flexible="1+"):
    """Per entity: the error, if any."""

    throttle_time_ms: Int32 = field(default=0)
    entries: list[AlterClientQuotasResponseEntryData]
