"""Admin calls to several brokers that answer wrongly: each item has an outcome in time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient
from pykafka2.admin import ConfigResource, ItemsFailed, Outcomes
from pykafka2.errors import KafkaError
from pykafka2.testing import Simulation
from tests.gate import rest_in_gate
from tests.hostile_brokers.liar import Silence
from tests.hostile_brokers.lies import Lie, body, saying, setting
from tests.hostile_brokers.worlds import BAD, GOOD, World, ending

ORDERS = ConfigResource("TOPIC", "orders")

CALLS: dict[str, Callable[[KafkaAdminClient], Any]] = {
    "ListOffsets": lambda admin: admin.list_offsets({BAD: "latest", GOOD: "latest"}),
    "DeleteRecords": lambda admin: admin.delete_records({BAD: 0, GOOD: 0}),
    "FindCoordinator": lambda admin: admin.list_offsets_of_groups(["g", "h"]),
    "OffsetFetch": lambda admin: admin.list_offsets_of_groups(["g", "h"]),
    "OffsetCommit": lambda admin: admin.alter_group_offsets("g", {BAD: 0, GOOD: 0}),
    "ListGroups": lambda admin: admin.list_groups(),
    "DescribeGroups": lambda admin: admin.describe_groups(["g"]),
    "ConsumerGroupDescribe": lambda admin: admin.describe_groups(["g"]),
    "DeleteGroups": lambda admin: admin.delete_groups(["other"], raise_errors=False),
    "DescribeConfigs": lambda admin: admin.describe_configs([ORDERS]),
    "IncrementalAlterConfigs": lambda admin: admin.alter_configs({ORDERS: {"retention.ms": "5"}}),
    "CreatePartitions": lambda admin: admin.create_partitions({"orders": 9}, validate_only=True),
    "ElectLeaders": lambda admin: admin.elect_leaders([BAD, GOOD]),
    "DescribeLogDirs": lambda admin: admin.describe_log_dirs(),
    "DescribeProducers": lambda admin: admin.describe_producers([BAD, GOOD]),
    "DescribeQuorum": lambda admin: admin.describe_metadata_quorum(),
}

EMPTY = {
    "ListOffsets": "topics",
    "DeleteRecords": "topics",
    "FindCoordinator": "coordinators",
    "OffsetCommit": "topics",
    "DescribeGroups": "groups",
    "DeleteGroups": "results",
    "DescribeConfigs": "results",
    "IncrementalAlterConfigs": "responses",
    "CreatePartitions": "results",
    "ElectLeaders": "replica_election_results",
    "DescribeProducers": "topics",
    "DescribeQuorum": "topics",
}
"""The field of each response whose emptiness leaves every item without a result."""

LIES = [
    *(Lie(f"{api}: nothing", api, setting((field, []))) for api, field in EMPTY.items()),
    *(Lie(f"{api}: silence", api, saying(Silence)) for api in CALLS),
    *(Lie(f"{api}: bytes of anything", api, body(b"\xfe" * 40)) for api in CALLS),
]


@pytest.mark.parametrize("lie", rest_in_gate(LIES), ids=str)
def test_each_item_has_an_outcome_in_time_and_the_next_call_succeeds(
    simulation: Simulation, lie: Lie
) -> None:
    world = World(simulation, everywhere=True)
    call = CALLS[lie.api]
    with world.admin() as admin:
        admin.alter_group_offsets("g", {BAD: 0})
        with world.lied_to(lie):
            began = simulation.now
            results: list[Any] = []
            error = ending(lambda: results.append(call(admin)))
            assert simulation.now - began < 14
            assert error is not None or _failed(results[0])
        call(admin)


def _failed(result: Any) -> bool:
    return isinstance(result, Outcomes) and bool(result.errors)


def test_items_of_an_honest_broker_succeed(simulation: Simulation) -> None:
    world = World(simulation)
    lie = Lie("ListOffsets: an error", "ListOffsets", setting(("topics.*.partitions.*.error_code", 12_345)))
    with world.admin() as admin, world.lied_to(lie):
        with pytest.raises(ItemsFailed, match="12345") as raised:
            admin.list_offsets({BAD: "latest", GOOD: "latest"})
        outcomes = raised.value.outcomes
        assert list(outcomes.errors) == [BAD]
        assert isinstance(outcomes.errors[BAD], KafkaError)
        assert outcomes[GOOD].offset == 0
