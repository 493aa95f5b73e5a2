"""Faults for producers: those of places and links, and those of single requests and responses.

The first are the package's own kinds; the others plant a rule in the brokers for a while (controls/rules.py).
All of them are faults that Apache Kafka can show, so that every promise must hold under each: a broker here
never says that a batch is missing that it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Any

import attrs

from pykafka2.broker.base.arguments import error_class
from pykafka2.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from pykafka2.testing.simulation.fault_table import kinds
from pykafka2.testing.simulation.faults import Kind
from tests.campaign.request_faults import (
    BROKERS_AND_LINKS,
    RequestFault,
    Throttled,
    delays,
    hidden_topics,
    lost_connections,
    passing_errors,
    some,
    stale_metadata,
    throttles,
)

if TYPE_CHECKING:
    from pykafka2.testing.simulation.world import World

# Not those of groups and consumers, nor deletions: what is gone cannot be held against what was sent.
PLACES_AND_LINKS = (
    *BROKERS_AND_LINKS,
    "disk full",
    "slow replication",
    "add partition",
    "slicing",
    "small buffers",
)

# Errors of requests that were not acted upon, by what asks.
PASSING = {
    "Produce": (
        "NOT_LEADER_OR_FOLLOWER",
        "LEADER_NOT_AVAILABLE",
        "NOT_ENOUGH_REPLICAS",
        "REQUEST_TIMED_OUT",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_TOPIC_ID",
        "KAFKA_STORAGE_ERROR",
        "NETWORK_EXCEPTION",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",
        "CORRUPT_MESSAGE",
        "THROTTLING_QUOTA_EXCEEDED",
    ),
    "InitProducerId": ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"),
    "Metadata": ("LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_SERVER_ERROR"),
}
REQUESTS = ("Produce", "Produce", "Produce", "InitProducerId", "Metadata")
REFUSALS = ("MESSAGE_TOO_LARGE", "INVALID_RECORD", "INVALID_TIMESTAMP", "TOPIC_AUTHORIZATION_FAILED")
"""Batches with these are given up, and leave a hole in the numbers of what follows."""
AFTER_APPEND = (
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "REQUEST_TIMED_OUT",
    "NOT_LEADER_OR_FOLLOWER",
    "UNKNOWN_SERVER_ERROR",
)
"""Errors that a broker can return although the batch is in its log."""


@attrs.define(frozen=True)
class AppendedAndCalled:
    """The answer of a broker that appended and says by an error that it cannot tell.

    A fault's arguments are part of the trace, so this has a name that is the same in every run.
    """

    error: str

    def __call__(self, request: Any, response: ProduceResponse | None) -> ProduceResponse | None:
        if response is None:
            return None
        topics = [
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[self._called(one) for one in topic.partition_responses],
            )
            for topic in response.responses
        ]
        return ProduceResponse(responses=topics, throttle_time_ms=response.throttle_time_ms)

    def _called(self, answer: PartitionProduceResponse) -> PartitionProduceResponse:
        if answer.error_code:
            return answer
        code = error_class(self.error).code
        return PartitionProduceResponse(index=answer.index, error_code=code or 0, base_offset=-1)


# ---------------------------------------------------------------------- how they are drawn


def _refusal(random: Random, world: World) -> dict[str, object]:
    then = f"error:{random.choice(REFUSALS)}"
    return {"became": "refused for good", "api": "Produce", "then": then, "times": random.choice([1, 1, 2])}


def _after_append(random: Random, world: World) -> dict[str, object]:
    reply = AppendedAndCalled(random.choice(AFTER_APPEND))
    return {
        "became": "appended, and an error returned",
        "api": "Produce",
        "then": "replace_reply",
        "reply": reply,
        "times": some(random),
    }


def _late(random: Random, world: World) -> dict[str, object]:
    then = f"replay:{random.uniform(0.01, 6.0):.3f}"
    return {"became": "arrived late", "api": "Produce", "then": then, "times": some(random)}


OF_REQUESTS: tuple[Kind, ...] = (
    Kind("passing error", 3.0, RequestFault, passing_errors(REQUESTS, PASSING)),
    Kind("refusal", 3.0, RequestFault, _refusal),
    Kind("error after append", 4.0, RequestFault, _after_append),
    Kind("request cut short", 3.0, RequestFault, lost_connections([*REQUESTS, "ApiVersions"])),
    Kind("late request", 3.0, RequestFault, _late),
    Kind(
        "delay",
        4.0,
        RequestFault,
        delays(["Produce", "Produce", "Metadata", "InitProducerId"], 3.0, times=10),
    ),
    Kind("stale metadata", 8.0, RequestFault, stale_metadata),
    Kind("hidden topics", 4.0, RequestFault, hidden_topics),
    Kind("throttle", 3.0, Throttled, throttles(["Produce", "Produce", "Metadata"])),
)


def producer_kinds() -> tuple[Kind, ...]:
    """All that can go wrong for a producer."""
    return (*kinds(*PLACES_AND_LINKS), *OF_REQUESTS)


def paused_seconds(faults: Any, place: str) -> float:
    """For how long a plan stops a client: no timer of its own can run meanwhile."""
    return sum(
        _seconds(fault.args) for fault in faults if fault.kind == "pause" and fault.args["place"] == place
    )


def _seconds(args: Mapping[str, Any]) -> float:
    return float(args["seconds"])
