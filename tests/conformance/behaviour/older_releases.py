"""Scenarios whose responses are recorded from older releases, too, and what is meant to differ there.

Clients ask in the newest versions that the release has.  Left out are scenarios about what came later, those
that wait for long, and those that differ; docs/fidelity.md, "Older releases", lists these.
"""

from __future__ import annotations

from .known import Known
from .scenarios import SCENARIOS

SERVERS = {"2.8": "2.8.2 with ZooKeeper", "3.9": "3.9.1", "4.3": "4.3.1"}

IN_BOTH = (
    "acls_without_an_authorizer",
    "api_versions_advertised",
    "api_versions_refused",
    "produce_accepts",
    "produce_serves_the_others",
    "produce_twice_to_one_partition",
    "produce_to_a_follower",
    "produce_without_acknowledgement",
    "produce_recompressed",
    "produce_idempotent",
    "fetch_limits",
    "fetch_epochs",
    "fetch_waits",
    "group_classic",
    "group_classic_of_two",
    "group_of_one",
    "group_of_two",
    "group_of_three_and_a_fourth",
    "offsets_for_leader_epochs",
    "transaction_of_version_1",
    "transaction_markers",
    "transaction_epochs_at_a_partition",
    "produced_twice_over",
    "rebalance_without_one",
    "rebalance_without_a_sync",
    "rebalance_of_an_absent_static_member",
    "rebalance_replaces_a_static_member",
    "rebalance_while_members_leave",
    "rebalance_changes_the_protocol",
    "segments_roll",
)

# What 2.8 does otherwise, or clients of 2.8 cannot ask.
SINCE_3_9 = (
    "configs_altered",
    "coordinators_found",
    "features_updated",
    "fetch_sessions",
    "fetch_sessions_by_id",
    "group_commits_of_members",
    "group_refusals",
    "group_static_members",
    "groups_listed",
    "leaders_elected",
    "log_directories",
    "metadata_of_topics",
    "partitions_created",
    "partitions_described",
    "produce_below_min_isr",
    "produce_timestamps",
    "topics_deleted",
    "topics_made_anew",
    "transaction_calls_in_every_version",
)

SCENARIOS_OF: dict[str, tuple[str, ...]] = {
    "2.8": IN_BOTH,
    "3.9": (*IN_BOTH, *SINCE_3_9),
    "4.3": tuple(
        name
        for name, one in SCENARIOS.items()
        if not one.__module__.endswith("on_release_4_4") and name != "share_states_by_call"
    ),
}

FORMATS = "Message formats 0 and 1"
OLDEST_OFFSETS = "ListOffsets v0"
AMONG_BROKERS = "APIs among brokers with ZooKeeper"

KNOWN_OF: dict[str, tuple[Known, ...]] = {
    "2.8": (
        Known("api_versions_advertised", "^API 1$", "^$", FORMATS),
        Known("api_versions_advertised", "^API (2|8|9)$", "^$", OLDEST_OFFSETS),
        Known("api_versions_advertised", "^API (4|5|6|7|56)$", "^$", AMONG_BROKERS),
    ),
    "3.9": (
        Known("api_versions_advertised", "^API 1$", "^$", FORMATS),
        Known("api_versions_advertised", "^API (2|8|9)$", "^$", OLDEST_OFFSETS),
    ),
    "4.3": (),
}
"""Differences from an older release, in addition to those from the newest."""
