"""The choice of a version: the highest that both sides speak, or an error that names both."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.errors import UnsupportedVersion
from pykafka2.network.api_versions import ApiVersions
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.produce import ProduceRequest


@given(low=st.integers(0, 20), width=st.integers(0, 20))
def test_the_highest_common_version_is_chosen(low: int, width: int) -> None:
    versions = ApiVersions("node 1", {MetadataRequest.API_KEY: (low, low + width)})
    common = set(range(low, low + width + 1)) & set(range(MetadataRequest.MAX_VERSION + 1))
    assert versions.knows(MetadataRequest) == bool(common)
    if common:
        assert versions.choose(MetadataRequest) == max(common)
        assert versions.choose(MetadataRequest) == max(common)
    else:
        with pytest.raises(
            UnsupportedVersion, match=f"node 1 supports Metadata versions {low} to {low + width}"
        ):
            versions.choose(MetadataRequest)


def test_the_askers_own_limits_count() -> None:
    versions = ApiVersions("node 1", {MetadataRequest.API_KEY: (4, 12)})
    assert versions.choose(MetadataRequest, max_version=9) == 9
    assert versions.choose(MetadataRequest, min_version=12) == 12
    assert versions.choose(MetadataRequest) == 12
    with pytest.raises(UnsupportedVersion, match="needs 13 to 13; use a newer broker"):
        versions.choose(MetadataRequest, min_version=13)
    with pytest.raises(UnsupportedVersion, match="needs 0 to 3; use an older broker"):
        versions.choose(MetadataRequest, max_version=3)


def test_an_api_that_the_broker_lacks_is_named() -> None:
    versions = ApiVersions("node 1 (host:9092)", {})
    assert not versions.knows(ProduceRequest)
    with pytest.raises(UnsupportedVersion, match=r"node 1 \(host:9092\) does not support Produce"):
        versions.choose(ProduceRequest)
