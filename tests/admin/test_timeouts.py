"""Wrong timeouts of the admin client's calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient, TopicPartition
from pykafka2.admin import NewTopic
from pykafka2.errors import IllegalArgument, KafkaTimeoutError
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.topics import CreateTopicsRequest, DeleteTopicsRequest
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


@pytest.mark.parametrize("timeout", [float("inf"), 1e10])
def test_change_of_topics_can_be_waited_for_without_a_limit(world: World, timeout: float) -> None:
    """The brokers get at most request_timeout_ms."""
    admin = world.admin
    admin.create_topics(["t"], timeout=timeout)
    admin.delete_topics(["t"], timeout=timeout)
    admin.create_topics(["t"])
    admin.delete_topics_by_id([admin.describe_topics(["t"])["t"].topic_id], timeout=timeout)
    history = world.cluster.history
    requests = [*history.requests(CreateTopicsRequest), *history.requests(DeleteTopicsRequest)]
    assert {request.timeout_ms for request in requests} == {30_000}


def test_timeout_before_the_first_look_up_has_a_response_is_raised(world: World) -> None:
    """There is no outcome yet that could be returned."""
    world.admin.list_topics()
    world.cluster.controls.hold(MetadataRequest)
    for call in (
        lambda: world.admin.list_offsets({TopicPartition("orders", 0): "latest"}, timeout=3),
        lambda: world.admin.list_offsets(
            {TopicPartition("orders", 0): "latest"}, timeout=3, raise_errors=False
        ),
    ):
        with pytest.raises(KafkaTimeoutError):
            call()
