"""ApiVersions 5: a broker rejects clients that expect another broker or cluster (KIP-1242)."""

from __future__ import annotations

import pytest

from pykafka2.errors import name_of
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest
from pykafka2.protocol.registry import ApiKey
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster

OWN = "the broker's"


def expecting(cluster_id: str | None, node_id: int, software: str = "x") -> ApiVersionsRequest:
    return ApiVersionsRequest(
        client_software_name=software, client_software_version="1", cluster_id=cluster_id, node_id=node_id
    )


@pytest.mark.kafka(brokers=2, as_version="4.4")
@pytest.mark.parametrize(
    ("cluster_id", "node_id", "software", "expected"),
    [
        (None, -1, "x", "NONE"),
        (OWN, 1, "x", "NONE"),
        (OWN, 0, "x", "REBOOTSTRAP_REQUIRED"),
        ("another", 1, "x", "REBOOTSTRAP_REQUIRED"),
        ("", 1, "x", "REBOOTSTRAP_REQUIRED"),
        (OWN, -1, "x", "INVALID_REQUEST"),
        (None, 1, "x", "INVALID_REQUEST"),
        ("another", 1, "x y", "INVALID_REQUEST"),
    ],
)
def test_expected_cluster_and_node_are_checked_in_kafkas_order(
    live: LiveCluster, cluster_id: str | None, node_id: int, software: str, expected: str
) -> None:
    cluster_id = live.cluster.cluster_id if cluster_id == OWN else cluster_id
    response = live.connect(1).call(expecting(cluster_id, node_id, software), 5)
    assert name_of(response.error_code) == expected
    ranges = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
    assert ranges.get(ApiKey.API_VERSIONS) == ((0, 5) if expected == "NONE" else None)


@pytest.mark.kafka(brokers=1, as_version="4.4")
def test_rejected_connection_stays_open_for_another_request(wire: RawClient) -> None:
    assert name_of(wire.call(expecting("another", 0), 5).error_code) == "REBOOTSTRAP_REQUIRED"
    assert wire.call(expecting(None, -1), 5).error_code == 0


@pytest.mark.kafka(brokers=1, as_version="4.3")
def test_brokers_before_4_4_do_not_support_version_5(wire: RawClient) -> None:
    wire.send(expecting("another", 7), 5)
    _, response = wire.receive(ApiVersionsRequest, 0)
    assert name_of(response.error_code) == "UNSUPPORTED_VERSION"
    assert [(one.api_key, one.max_version) for one in response.api_keys] == [(ApiKey.API_VERSIONS, 4)]
