"""Features of a cluster (KIP-584), and the releases of Apache Kafka that it can imitate.

Names and levels are those of Apache Kafka, without streams.version. The finalized levels are part of the
controller's image. ApiVersions returns them, and the transaction coordinator reads its transaction.version
from them.

`RANGES` has one line per API: key, name, and for each release that changed it the range of versions. They are
taken from the message schemas in the kafka-clients jars of 2.8.2, 3.0.2, 3.1.2, 3.2.3, 3.3.2, 3.4.1, 3.5.2,
3.6.2, 3.7.2, 3.8.1, 3.9.1, 4.0.1, 4.1.1, 4.2.0, 4.3.1 and 4.4.0, without unstable versions (tests/conformance
compares them). Up to 3.2 they are the versions of brokers with ZooKeeper, from 3.3 on of brokers with KRaft,
as each release recommends for production.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

import attrs

from pykafka2.broker.config.kafka_table import ADDED
from pykafka2.broker.config.keys import nearest
from pykafka2.errors import ConfigurationError, UnknownOption

TRANSACTION_VERSION: Final = "transaction.version"
METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
ELR_VERSION: Final = "eligible.leader.replicas.version"
SHARE_VERSION: Final = "share.version"


@attrs.define(frozen=True)
class Levels:
    """The lowest and highest supported level of a feature."""

    lowest: int
    highest: int


RELEASES: Final = (
    "2.8", "3.0", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9",
    "4.0", "4.1", "4.2", "4.3", "4.4"
)  # fmt: skip
DEFAULT_NAME: Final = RELEASES[-1]
"""The release that clusters imitate without `as_version`."""
FIRST_WITH_KRAFT: Final = "3.3"

RANGES: Final = """
 0 Produce                        2.8 0-9, 3.7 0-10, 3.8 0-11, 4.0 3-12, 4.1 3-13
 1 Fetch                          2.8 0-12, 3.1 0-13, 3.5 0-15, 3.7 0-16, 3.9 0-17, 4.0 4-17, 4.1 4-18
 2 ListOffsets                    2.8 0-6, 3.0 0-7, 3.5 0-8, 3.9 0-9, 4.0 1-10, 4.2 1-11
 3 Metadata                       2.8 0-11, 3.1 0-12, 4.0 0-13
 4 LeaderAndIsr                   2.8 0-5, 3.2 0-6, 3.3 none
 5 StopReplica                    2.8 0-3, 3.3 none
 6 UpdateMetadata                 2.8 0-7, 3.3 none
 7 ControlledShutdown             2.8 0-3, 3.3 none
 8 OffsetCommit                   2.8 0-8, 3.7 0-9, 4.0 2-9, 4.2 2-10
 9 OffsetFetch                    2.8 0-7, 3.0 0-8, 3.7 0-9, 4.0 1-9, 4.2 1-10
10 FindCoordinator                2.8 0-3, 3.0 0-4, 3.8 0-5, 3.9 0-6
11 JoinGroup                      2.8 0-7, 3.2 0-9
12 Heartbeat                      2.8 0-4
13 LeaveGroup                     2.8 0-4, 3.2 0-5
14 SyncGroup                      2.8 0-5
15 DescribeGroups                 2.8 0-5, 4.0 0-6
16 ListGroups                     2.8 0-4, 3.8 0-5
17 SaslHandshake                  2.8 0-1
18 ApiVersions                    2.8 0-3, 3.9 0-4, 4.4 0-5
19 CreateTopics                   2.8 0-7, 4.0 2-7
20 DeleteTopics                   2.8 0-6, 4.0 1-6
21 DeleteRecords                  2.8 0-2
22 InitProducerId                 2.8 0-4, 3.8 0-5
23 OffsetForLeaderEpoch           2.8 0-4, 4.0 2-4
24 AddPartitionsToTxn             2.8 0-3, 3.6 0-4, 3.8 0-5
25 AddOffsetsToTxn                2.8 0-3, 3.8 0-4
26 EndTxn                         2.8 0-3, 3.8 0-4, 4.0 0-5
27 WriteTxnMarkers                2.8 0-1, 4.0 1-1, 4.2 1-2
28 TxnOffsetCommit                2.8 0-3, 3.8 0-4, 4.0 0-5, 4.4 0-6
29 DescribeAcls                   2.8 0-2, 3.3 0-3, 4.0 1-3
30 CreateAcls                     2.8 0-2, 3.3 0-3, 4.0 1-3
31 DeleteAcls                     2.8 0-2, 3.3 0-3, 4.0 1-3
32 DescribeConfigs                2.8 0-4, 4.0 1-4
33 AlterConfigs                   2.8 0-2
34 AlterReplicaLogDirs            2.8 0-2, 4.0 1-2
35 DescribeLogDirs                2.8 0-2, 3.2 0-3, 3.3 0-4, 4.0 1-4, 4.3 1-5
36 SaslAuthenticate               2.8 0-2
37 CreatePartitions               2.8 0-3
38 CreateDelegationToken          2.8 0-2, 3.3 none, 3.6 0-3, 4.0 1-3
39 RenewDelegationToken           2.8 0-2, 3.3 none, 3.6 0-2, 4.0 1-2
40 ExpireDelegationToken          2.8 0-2, 3.3 none, 3.6 0-2, 4.0 1-2
41 DescribeDelegationToken        2.8 0-2, 3.3 none, 3.6 0-3, 4.0 1-3
42 DeleteGroups                   2.8 0-2, 4.4 0-3
43 ElectLeaders                   2.8 0-2
44 IncrementalAlterConfigs        2.8 0-1
45 AlterPartitionReassignments    2.8 0-0, 4.1 0-1
46 ListPartitionReassignments     2.8 0-0
47 OffsetDelete                   2.8 0-0
48 DescribeClientQuotas           2.8 0-1
49 AlterClientQuotas              2.8 0-1
50 DescribeUserScramCredentials   2.8 0-0, 3.3 none, 3.5 0-0
51 AlterUserScramCredentials      2.8 0-0, 3.3 none, 3.5 0-0
55 DescribeQuorum                 3.3 0-1, 3.9 0-2
56 AlterPartition                 2.8 0-0, 3.2 0-1, 3.3 none
57 UpdateFeatures                 2.8 0-0, 3.3 0-1, 4.0 0-2
60 DescribeCluster                2.8 0-0, 3.7 0-1, 4.0 0-2
61 DescribeProducers              2.8 0-0
64 UnregisterBroker               3.3 0-0
65 DescribeTransactions           3.0 0-0
66 ListTransactions               3.0 0-0, 3.8 0-1, 4.1 0-2
67 AllocateProducerIds            3.0 0-0, 3.3 none
68 ConsumerGroupHeartbeat         3.7 0-0, 4.0 0-1
69 ConsumerGroupDescribe          3.8 0-0, 4.0 0-1
71 GetTelemetrySubscriptions      3.7 0-0
72 PushTelemetry                  3.7 0-0
74 ListConfigResources            3.7 0-0, 4.1 0-1
75 DescribeTopicPartitions        3.8 0-0
76 ShareGroupHeartbeat            4.1 1-1
77 ShareGroupDescribe             4.1 1-1
78 ShareFetch                     4.1 1-1, 4.2 1-2
79 ShareAcknowledge               4.1 1-1, 4.2 1-2
80 AddRaftVoter                   3.9 0-0, 4.2 0-1
81 RemoveRaftVoter                3.9 0-0
83 InitializeShareGroupState      4.1 0-0
84 ReadShareGroupState            4.1 0-0
85 WriteShareGroupState           4.1 0-0, 4.2 0-1
86 DeleteShareGroupState          4.1 0-0
87 ReadShareGroupStateSummary     4.1 0-0, 4.2 0-1
88 StreamsGroupHeartbeat          4.2 0-0, 4.4 0-1
89 StreamsGroupDescribe           4.2 0-0, 4.4 0-1
90 DescribeShareGroupOffsets      4.1 0-0, 4.2 0-1
91 AlterShareGroupOffsets         4.1 0-0
92 DeleteShareGroupOffsets        4.1 0-0
93 StreamsGroupTopologyDescriptionUpdate 4.4 0-0
94 UnregisterController           4.4 0-0
"""

# The lowest and highest metadata.version that each release with KRaft supports.
METADATA_VERSIONS: Final = {
    "3.3": Levels(1, 7),
    "3.4": Levels(1, 8),
    "3.5": Levels(1, 11),
    "3.6": Levels(1, 14),
    "3.7": Levels(1, 19),
    "3.8": Levels(1, 20),
    "3.9": Levels(1, 21),
    "4.0": Levels(7, 25),
    "4.1": Levels(7, 27),
    "4.2": Levels(7, 29),
    "4.3": Levels(7, 30),
    "4.4": Levels(7, 33),
}

# The levels of the other features, by the release from which on they apply.
FEATURE_LEVELS: Final[Mapping[str, Mapping[str, Levels]]] = {
    ELR_VERSION: {"4.1": Levels(0, 1)},
    "group.version": {"4.0": Levels(0, 1)},
    KRAFT_VERSION: {"3.9": Levels(0, 1)},
    SHARE_VERSION: {"4.1": Levels(0, 1), "4.4": Levels(0, 2)},
    TRANSACTION_VERSION: {"4.0": Levels(0, 2)},
}
FINALIZED_SINCE: Final = {
    ELR_VERSION: "4.1",
    "group.version": "4.0",
    SHARE_VERSION: "4.2",
    TRANSACTION_VERSION: "4.0",
}
"""The releases from which on a new cluster finalizes a feature; kraft.version is not part of the image."""

# Options that a release added, or whose default it changed, with the value that they have before it.
DEFAULTS_BEFORE: Final = {
    "log.message.timestamp.after.max.ms": ("4.0", str(2**63 - 1)),  # KIP-1030
    "transaction.partition.verification.enable": ("3.6", "false"),  # KIP-890
}


@attrs.define(frozen=True)
class Release:
    """A release of Apache Kafka as seen by clients: API versions, features and defaults."""

    name: str
    """Major and minor version, such as "3.9"."""
    ranges: Mapping[int, tuple[int, int]]
    """The lowest and highest version by API key, without the APIs that its brokers do not serve."""
    supported: Mapping[str, Levels]
    """The supported levels by feature; empty with ZooKeeper."""
    finalized: Mapping[str, int]
    """The level that a new cluster finalizes, by feature."""
    defaults: Mapping[str, str]
    """Defaults of options that differ from those of the default release."""
    lacks: frozenset[str]
    """Options that only newer releases have, as far as these are not older than 4.3."""

    @property
    def is_default(self) -> bool:
        """Whether clusters imitate it without `as_version`."""
        return self.name == DEFAULT_NAME

    @property
    def has_zookeeper(self) -> bool:
        """Whether only the controller handles its requests, because brokers do not forward them."""
        return not _is_since(self.name, FIRST_WITH_KRAFT)

    def is_since(self, first: str) -> bool:
        """Return whether this release is `first` or a newer one."""
        return _is_since(self.name, first)

    def versions_of(self, api_key: int, lowest: int, highest: int) -> tuple[int, int] | None:
        """Return the part of a range of versions that the release has, or None."""
        known = self.ranges.get(api_key)
        if known is None:
            return None
        low, high = max(lowest, known[0]), min(highest, known[1])
        return (low, high) if low <= high else None


def release_of(name: str | None) -> Release:
    """Return the release with this name, such as "3.9"; the default if None.

    Raise `ConfigurationError`, which lists the valid names, for any other.
    """
    if name is None:
        return _release(DEFAULT_NAME)
    if not isinstance(name, str) or name not in RELEASES:
        raise ConfigurationError(f"as_version={unknown_release(name)}")
    return _release(name)


def unknown_release(name: object) -> str:
    """Return the message for an unknown release: its name, the nearest one, and all valid names."""
    close = [one for one in RELEASES if f"{name}.".removeprefix("v").startswith(f"{one}.")]
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"{name!r} is not a known release{hint}; use one of {', '.join(map(repr, RELEASES))}"


@cache
def _release(name: str) -> Release:
    ranges = {}
    for line in RANGES.strip().splitlines():
        key, _, changes = line.split(maxsplit=2)
        known = _newest_change(changes, name)
        if known is not None:
            ranges[int(key)] = known
    supported, finalized = _features(name)
    defaults = {
        option: value for option, (first, value) in DEFAULTS_BEFORE.items() if not _is_since(name, first)
    }
    lacks = frozenset[str]().union(*(added for since, added in ADDED.items() if not _is_since(name, since)))
    return Release(
        name,
        MappingProxyType(ranges),
        MappingProxyType(supported),
        MappingProxyType(finalized),
        MappingProxyType(defaults),
        lacks,
    )


def _newest_change(changes: str, name: str) -> tuple[int, int] | None:
    """Return the range of versions of a release, from the last column of a line of RANGES."""
    found: tuple[int, int] | None = None
    for change in changes.split(", "):
        since, versions = change.split()
        if not _is_since(name, since):
            break
        low, _, high = versions.partition("-")
        found = None if versions == "none" else (int(low), int(high))
    return found


def _features(name: str) -> tuple[dict[str, Levels], dict[str, int]]:
    """Return the supported levels of a release's features, and those that a new cluster finalizes."""
    metadata_version = METADATA_VERSIONS.get(name)
    if metadata_version is None:
        return {}, {}
    supported, finalized = {METADATA_VERSION: metadata_version}, {METADATA_VERSION: metadata_version.highest}
    for feature, by_release in FEATURE_LEVELS.items():
        for since, levels in by_release.items():
            if _is_since(name, since):
                supported[feature] = levels
        if feature in supported and feature in FINALIZED_SINCE and _is_since(name, FINALIZED_SINCE[feature]):
            finalized[feature] = supported[feature].highest
    return dict(sorted(supported.items())), dict(sorted(finalized.items()))


def _is_since(name: str, first: str) -> bool:
    return RELEASES.index(name) >= RELEASES.index(first)


DEFAULT: Final = _release(DEFAULT_NAME)
SUPPORTED: Final = DEFAULT.supported
IMPLEMENTED: Final = _release(RELEASES[-1]).supported
"""The levels that a metadata log can have, whatever release a cluster imitates."""
LATEST: Final = DEFAULT.finalized
"""The level of each feature that a new cluster finalizes."""


def finalised(
    overrides: Mapping[str, int] | None,
    supported: Mapping[str, Levels] = SUPPORTED,
    defaults: Mapping[str, int] = LATEST,
    release: str = "",
) -> Mapping[str, int]:
    """Return the default levels with these overrides; level 0 disables a feature.

    Raise `UnknownOption` with the nearest feature and the name of an older `release`, or
    `ConfigurationError` for an unsupported level.
    """
    levels = dict(defaults)
    for name, level in (overrides or {}).items():
        known = supported.get(name)
        if known is None:
            where = f" in Apache Kafka {release}" if release else ""
            raise UnknownOption(f"no feature {name!r}{where}{nearest(name, supported)}")
        if not isinstance(level, int) or not known.lowest <= level <= known.highest:
            raise ConfigurationError(f"{name}={level!r}: use a level from {known.lowest} to {known.highest}")
        levels[name] = level
    return MappingProxyType({name: level for name, level in levels.items() if level > 0})
