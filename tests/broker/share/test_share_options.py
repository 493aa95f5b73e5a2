"""The effective options of a share group, over those of the broker."""

from __future__ import annotations

import attrs
import pytest

from pykafka2.broker.base.image import GROUP_RESOURCE
from pykafka2.broker.share.options import ShareOptions
from tests.broker.share.bench import OPTIONS
from tests.connections import LiveCluster


@pytest.mark.kafka(
    brokers=1,
    config={
        "group.share.delivery.count.limit": 4,
        "group.share.max.record.lock.duration.ms": 30_000,
        "group.share.min.partition.max.record.locks": 200,
    },
)
def test_group_options_override_the_brokers_within_their_bounds(live: LiveCluster) -> None:
    node = live.cluster.running.broker(0)
    options = ShareOptions(node)
    assert options.of("g").delivery_limit == 4
    configs = {
        (GROUP_RESOURCE, "g"): {
            "share.record.lock.duration.ms": "60000",
            "share.partition.max.record.locks": "100",
            "share.isolation.level": "read_committed",
            "share.renew.acknowledge.enable": "false",
        }
    }
    with live.cluster.running.lock:
        node.image = attrs.evolve(node.image, configs=configs)
    found = options.of("g")
    assert (found.record_lock, found.max_record_locks, found.delivery_limit) == (30.0, 200, 4)
    assert (found.read_committed, found.can_renew, options.of("h").can_renew) == (True, False, True)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("PT1H", 3_600_000), ("P1DT2M0.5S", 86_520_500), ("PT0.25S", 250), ("p2d", 172_800_000)],
)
def test_reset_durations_are_parsed_as_in_java(text: str, milliseconds: int) -> None:
    options = attrs.evolve(OPTIONS, offset_reset=f"by_duration:{text}")
    assert options.reset_duration_ms == milliseconds
