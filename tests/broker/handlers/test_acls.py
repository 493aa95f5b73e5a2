"""ACL requests to a cluster without an authorizer: each gets the error of Apache Kafka, none is stored."""

from __future__ import annotations

import pytest

from pykafka2.errors import SecurityDisabled, name_of
from pykafka2.protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pykafka2.testing import STANDARD_AUTHORIZER
from tests.acl_filters import ANY_RULE
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster

RULE = AclCreation(
    resource_type=2, resource_name="orders", principal="User:a", host="*", operation=3, permission_type=3
)


@pytest.mark.kafka(brokers=2)
@pytest.mark.parametrize("broker", [0, 1])
def test_acl_requests_without_an_authorizer_are_rejected_by_every_broker(
    live: LiveCluster, broker: int
) -> None:
    wire = live.connect(broker)
    described = wire.call(DescribeAclsRequest(**ANY_RULE), 3)
    assert (described.error_code, described.resources) == (SecurityDisabled.code, [])
    assert "Authorizer" in (described.error_message or "")
    created = wire.call(CreateAclsRequest(creations=[RULE, RULE]), 3)
    assert [one.error_code for one in created.results] == [SecurityDisabled.code] * 2
    deleted = wire.call(DeleteAclsRequest(filters=[DeleteAclsFilter(**ANY_RULE)]), 3)
    assert [one.error_code for one in deleted.filter_results] == [SecurityDisabled.code]
    assert wire.call(CreateAclsRequest(creations=[]), 3).results == []


@pytest.mark.kafka(
    brokers=2, config={"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
)
def test_acl_changes_through_any_broker_are_made_by_the_controller(live: LiveCluster) -> None:
    for broker, principal in enumerate(("User:a", "User:b")):
        wire = live.connect(broker)
        rule = AclCreation(
            resource_type=2, resource_name="t", principal=principal, host="*", operation=3, permission_type=3
        )
        created = wire.call(CreateAclsRequest(creations=[rule]), 3)
        assert [one.error_code for one in created.results] == [0]
        deleted = wire.call(DeleteAclsRequest(filters=[DeleteAclsFilter(**ANY_RULE)]), 3)
        assert [len(one.matching_acls) for one in deleted.filter_results] == [1]


def created_for(wire: RawClient, *hosts: str) -> list[tuple[str, str | None]]:
    """Create one ACL for each host; return the errors with their messages."""
    rules = [
        AclCreation(
            resource_type=2, resource_name="t", principal="User:a", host=host, operation=3, permission_type=3
        )
        for host in hosts
    ]
    results = wire.call(CreateAclsRequest(creations=rules), 3).results
    return [(name_of(one.error_code), one.error_message) for one in results]


AUTHORIZED = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}


@pytest.mark.kafka(brokers=1, config=AUTHORIZED)
def test_networks_in_acls_are_checked(wire: RawClient) -> None:
    assert [code for code, _ in created_for(wire, "10.0.0.0/8", "fe80::/10", "*", "a-host")] == ["NONE"] * 4
    ((code, message),) = created_for(wire, "10.0.0.0/33")
    assert code == "INVALID_REQUEST"
    assert (message or "").startswith("Invalid CIDR notation '10.0.0.0/33': ")


@pytest.mark.kafka(brokers=1, config=AUTHORIZED, features={"metadata.version": 31})
def test_networks_in_acls_need_metadata_version_32(live: LiveCluster) -> None:
    expected = "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher."
    assert created_for(live.connect(), "10.0.0.0/8", "10.0.0.1") == [
        ("UNSUPPORTED_VERSION", expected),
        ("NONE", ""),
    ]


@pytest.mark.kafka(brokers=1, config=AUTHORIZED, as_version="4.3")
def test_brokers_before_4_4_take_any_text_as_a_host(live: LiveCluster) -> None:
    assert [code for code, _ in created_for(live.connect(), "10.0.0.0/8", "10.0.0.0/33", "")] == ["NONE"] * 3


OPEN_WITHOUT_RULES = {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": True}


@pytest.mark.parametrize(
    "expected",
    [
        pytest.param(
            code,
            marks=pytest.mark.kafka(
                brokers=1, topics={"t": 1}, config=OPEN_WITHOUT_RULES, as_version=release
            ),
        )
        for release, code in [("4.3", "TOPIC_AUTHORIZATION_FAILED"), ("4.4", "NONE")]
    ],
)
def test_networks_in_acls_match_hosts_since_4_4(wire: RawClient, expected: str) -> None:
    rule = AclCreation(
        resource_type=2,
        resource_name="t",
        principal="User:ANONYMOUS",
        host="127.0.0.0/8",
        operation=3,
        permission_type=3,
    )
    assert [one.error_code for one in wire.call(CreateAclsRequest(creations=[rule]), 3).results] == [0]
    request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=bytes(16), name="t")])
    assert [name_of(one.error_code) for one in wire.call(request, 12).topics] == [expected]
