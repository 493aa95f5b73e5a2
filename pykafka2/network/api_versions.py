"""The API versions that a connection's broker supports, and the choice among them.

Created by the handshake, read by its connection on the driver's thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pykafka2.errors import UnsupportedVersion
from pykafka2.protocol.messages.api_versions import ApiVersionsResponse
from pykafka2.protocol.struct import Request

VersionRange = tuple[int, int]


class ApiVersions:
    """The version ranges of one broker, by API key."""

    __slots__ = ("_chosen", "broker", "features_epoch", "finalized_features", "ranges")

    def __init__(
        self,
        broker: str,
        ranges: Mapping[int, VersionRange],
        finalized_features: Mapping[str, int] | None = None,
        features_epoch: int = -1,
    ) -> None:
        self.broker = broker
        self.ranges = dict(ranges)
        self.finalized_features = dict(finalized_features or {})
        self.features_epoch = features_epoch
        self._chosen: dict[tuple[type[Request[Any]], int | None, int | None], int] = {}

    @classmethod
    def of(cls, broker: str, response: ApiVersionsResponse) -> ApiVersions:
        """Return the versions of a broker's ApiVersions response."""
        return cls(
            broker,
            {api.api_key: (api.min_version, api.max_version) for api in response.api_keys},
            {feature.name: feature.max_version_level for feature in response.finalized_features},
            response.finalized_features_epoch,
        )

    def knows(self, request: type[Request[Any]]) -> bool:
        """Return True if both sides share a version of the request."""
        theirs = self.ranges.get(request.API_KEY)
        return theirs is not None and theirs[0] <= request.MAX_VERSION and theirs[1] >= request.MIN_VERSION

    def choose(
        self, request: type[Request[Any]], min_version: int | None = None, max_version: int | None = None
    ) -> int:
        """Return the highest version that both sides support, within the caller's limits.

        Raise UnsupportedVersion with the broker and both ranges.
        """
        key = (request, min_version, max_version)
        version = self._chosen.get(key)
        if version is not None:
            return version
        low = request.MIN_VERSION if min_version is None else max(min_version, request.MIN_VERSION)
        high = request.MAX_VERSION if max_version is None else min(max_version, request.MAX_VERSION)
        name = request.NAME.removesuffix("Request")
        theirs = self.ranges.get(request.API_KEY)
        if theirs is None:
            raise UnsupportedVersion(f"{self.broker} does not support {name}; use a newer or another broker")
        if theirs[1] < low or theirs[0] > high:
            raise UnsupportedVersion(
                f"{self.broker} supports {name} versions {theirs[0]} to {theirs[1]}, "
                f"but this needs {low} to {high}; use {'a newer' if theirs[1] < low else 'an older'} broker"
            )
        version = self._chosen[key] = min(high, theirs[1])
        return version
