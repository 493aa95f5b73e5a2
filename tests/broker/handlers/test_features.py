"""Features in the ApiVersions response, equal to those of Apache Kafka 4.4.0."""

from __future__ import annotations

import pytest

from pykafka2.errors import ConfigurationError, UnknownOption
from pykafka2.testing.cluster import KafkaCluster
from tests.broker.support.admin_requests import api_versions, finalized_levels
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster


@pytest.mark.kafka(brokers=1)
def test_finalised_features_are_those_of_kafka_4_4_but_for_streams(live: LiveCluster) -> None:
    response = api_versions(live.connect(), 4)
    assert {one.name: one.max_version_level for one in response.finalized_features} == {
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "metadata.version": 33,
        "share.version": 2,
        "transaction.version": 2,
    }
    assert all(one.min_version_level == one.max_version_level for one in response.finalized_features)
    assert response.finalized_features_epoch >= 0
    supported = {one.name: (one.min_version, one.max_version) for one in response.supported_features}
    assert supported["transaction.version"] == (0, 2)
    assert supported["metadata.version"] == (7, 33)


@pytest.mark.kafka(brokers=1)
def test_api_versions_3_omits_features_with_minimum_level_0(live: LiveCluster) -> None:
    response = api_versions(live.connect(), 3)
    assert [one.name for one in response.supported_features] == ["metadata.version"]
    assert len(response.finalized_features) == 5
    assert not api_versions(live.connect(), 2).finalized_features


def test_lower_feature_levels_can_be_finalized() -> None:
    with KafkaCluster(1, features={"transaction.version": 1, "group.version": 0}) as cluster:
        with RawClient(cluster.brokers[0].address) as wire:
            levels = finalized_levels(wire)
        assert levels["transaction.version"] == 1
        assert "group.version" not in levels
        assert cluster.brokers[0].image.transaction_version == 1


def test_a_misspelt_feature_or_an_unknown_level_raises() -> None:
    with pytest.raises(UnknownOption, match=r"transaction\.version"):
        KafkaCluster(features={"transactions.version": 1})
    with pytest.raises(ConfigurationError, match="from 0 to 2"):
        KafkaCluster(features={"transaction.version": 3})
