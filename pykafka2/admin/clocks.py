"""Compares the clocks of brokers with this host's, for `check_cluster`.

Kafka's protocol shows the active controller's clock, in the response to DescribeQuorum. It shows that of any
other broker only in the response to a record of a topic with message.timestamp.type=LogAppendTime. Pure
decisions: `ask` sends a request on the caller's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pykafka2.admin.check_values import CheckStatus, CheckStep
from pykafka2.errors import KafkaError, error_of

if TYPE_CHECKING:
    from pykafka2.clock import Clock

Ask = Callable[[Any], Any]
VALUE = b"pykafka2 check"
MAX_TIMEOUT_MS = 2**31 - 1
TOPIC_FIX = (
    "use a topic with message.timestamp.type=LogAppendTime to which you can write, and of which each broker "
    "leads a partition"
)
FIX = "synchronize the clocks of brokers and clients (NTP)"


def controller_clock(ask: Ask, clock: Clock, max_skew: float) -> CheckStep:
    """Return the step for the clock of the active controller."""
    began = clock.wall_ms()
    try:
        leader, time_ms = _controller_time(ask)
    except KafkaError as error:
        return CheckStep("clock", CheckStatus.SKIPPED, f"not known: {error}")
    if time_ms is None:
        return CheckStep("clock", CheckStatus.SKIPPED, "this release does not show the controller's clock")
    return _compared(f"the controller (broker {leader})", time_ms, began, clock.wall_ms(), max_skew)


def broker_clock(
    ask: Ask, clock: Clock, max_skew: float, topic: str, metadata: Any, broker_id: int, timeout: float
) -> CheckStep:
    """Write a record to a partition that the broker leads; return the step for the broker's clock."""
    from pykafka2.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
    from pykafka2.records.encoder import BatchBuilder

    found = next((one for one in metadata.topics if one.name == topic), None)
    led = [] if found is None else [one for one in found.partitions if one.leader_id == broker_id]
    if found is None or not led:
        missing = f"topic {topic} does not exist" if found is None else f"it leads no partition of {topic}"
        return _not_known(missing)
    began = clock.wall_ms()
    builder = BatchBuilder()
    builder.append(began, None, VALUE)
    data = PartitionProduceData(index=led[0].partition_index, records=builder.build())
    request = ProduceRequest(
        acks=1,
        timeout_ms=min(int(timeout * 1000), MAX_TIMEOUT_MS),
        topic_data=[TopicProduceData(name=topic, topic_id=found.topic_id, partition_data=[data])],
    )
    try:
        response = ask(request)
        ended = clock.wall_ms()
        written = [one for each in response.responses for one in each.partition_responses]
        for one in written:
            if one.error_code:
                raise error_of(one.error_code, one.error_message)
    except KafkaError as error:
        return _not_known(str(error))
    times = [one.log_append_time_ms for one in written if one.log_append_time_ms >= 0]
    if not times:
        return _not_known(f"topic {topic} needs message.timestamp.type=LogAppendTime")
    return _compared(f"broker {broker_id}", times[0], began, ended, max_skew)


def _not_known(reason: str) -> CheckStep:
    """Return a warning: the caller has named a topic to compare the clocks."""
    return CheckStep("clock", CheckStatus.WARNING, f"not known: {reason}", TOPIC_FIX)


def _compared(name: str, time_ms: int, began: int, ended: int, max_skew: float) -> CheckStep:
    """Compare a time with the moments before the request and after the response."""
    skew, doubt = (time_ms - (began + ended) / 2) / 1000, (ended - began) / 2000
    direction = "ahead of" if skew > 0 else "behind"
    detail = f"the clock of {name} is {abs(skew):.2f} s {direction} this host's, give or take {doubt:.2f} s"
    if abs(skew) - doubt > max_skew:
        return CheckStep("clock", CheckStatus.FAILED, detail, FIX)
    return CheckStep("clock", CheckStatus.OK, detail)


def _controller_time(ask: Ask) -> tuple[int, int | None]:
    """Return the id of the active controller, and its clock in milliseconds if it is shown."""
    from pykafka2.protocol.messages.quorum import (
        DescribeQuorumRequest,
        DescribeQuorumRequestPartitionData,
        DescribeQuorumRequestTopicData,
    )

    partition = DescribeQuorumRequestPartitionData(partition_index=0)
    topic = DescribeQuorumRequestTopicData(topic_name="__cluster_metadata", partitions=[partition])
    response = ask(DescribeQuorumRequest(topics=[topic]))
    if response.error_code:
        raise error_of(response.error_code, response.error_message or None)
    described = next((partition for topic in response.topics for partition in topic.partitions), None)
    if described is None:
        return -1, None
    if described.error_code:
        raise error_of(described.error_code, described.error_message or None)
    # The leader reports the time of its response as its own last fetch.
    times = [
        replica.last_fetch_timestamp
        for replica in described.current_voters
        if replica.replica_id == described.leader_id and replica.last_fetch_timestamp > 0
    ]
    return described.leader_id, times[0] if times else None
