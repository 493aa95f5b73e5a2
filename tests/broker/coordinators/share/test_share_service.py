"""The share coordinator of a broker: requests about several share partitions are split and merged."""

from __future__ import annotations

from typing import Any

from pykafka2.broker.coordinators.internal_topics import share_partition_key
from pykafka2.broker.coordinators.settings import ShareSettings
from pykafka2.broker.coordinators.share.service import ShareCoordinator
from pykafka2.protocol.messages import share_state as messages

from .bench import ORDERS, REFUNDS, TOPICS, write_request


def test_request_is_split_by_share_partition_and_its_results_are_merged_by_topic() -> None:
    service = ShareCoordinator(ShareSettings(), 5, lambda now: 0, TOPICS)
    places = [(ORDERS, 0), (REFUNDS, 1), (ORDERS, 2), (ORDERS, 0)]
    request: Any = write_request("g", *places[0])
    for place in places[1:]:
        request.topics += write_request("g", *place).topics
    keys = [key for key, _ in service.split(request, 1)]
    assert keys == [share_partition_key("g", *place) for place in places]
    responses: Any = [
        messages.WriteShareGroupStateResponse(
            results=[
                messages.WriteStateResult(
                    topic_id=topic_id,
                    partitions=[
                        messages.WriteShareGroupStateResponsePartitionResult(
                            partition=partition, error_code=code
                        )
                    ],
                )
            ]
        )
        for code, (topic_id, partition) in enumerate(places, 1)
    ]
    merged: Any = service.merge(request, responses)
    found = [
        (result.topic_id, [(one.partition, one.error_code) for one in result.partitions])
        for result in merged.results
    ]
    assert found == [(ORDERS, [(0, 4), (2, 3)]), (REFUNDS, [(1, 2)])], "the last one named counts"
