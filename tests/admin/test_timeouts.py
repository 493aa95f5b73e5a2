"""Wrong timeouts of the admin client's calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient, TopicPartition
from pykafka2.admin import NewTopic
from pykafka2.errors import IllegalArgument
from tests.admin.worlds import World

CALLS: list[Callable[[KafkaAdminClient, Any], Any]] = [
    lambda admin, timeout: admin.list_topics(timeout=timeout),
    lambda admin, timeout: admin.describe_cluster(timeout=timeout),
    lambda admin, timeout: admin.create_topics([NewTopic("t")], timeout=timeout),
    lambda admin, timeout: admin.wait_for_topics(["t"], timeout=timeout),
    lambda admin, timeout: admin.list_groups(timeout=timeout),
    lambda admin, timeout: admin.wait_for_group("g", timeout=timeout),
    lambda admin, timeout: admin.list_offsets({TopicPartition("t", 0): "latest"}, timeout=timeout),
    lambda admin, timeout: admin.describe_log_dirs(timeout=timeout),
    lambda admin, timeout: admin.fence_producers(["tx"], timeout=timeout),
    lambda admin, timeout: admin.check_cluster(timeout=timeout),
    lambda admin, timeout: admin.close(timeout=timeout),
]


@pytest.mark.parametrize("timeout", ["x", float("nan"), True])
@pytest.mark.parametrize("call", CALLS)
def test_timeout_of_a_wrong_type_is_an_illegal_argument(
    world: World, call: Callable[[KafkaAdminClient, Any], Any], timeout: Any
) -> None:
    with pytest.raises(IllegalArgument, match="timeout="):
        call(world.admin, timeout)
