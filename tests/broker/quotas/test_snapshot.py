"""Quotas in a snapshot of the metadata, from which a cluster starts."""

from __future__ import annotations

from pykafka2.broker.controller.metadata.log import MetadataLog
from pykafka2.broker.controller.metadata.records import quota_record
from pykafka2.broker.quotas.entities import entity_of
from tests.broker.controller.metadata.metadata_changes import new_state


def test_snapshot_of_the_metadata_keeps_quotas() -> None:
    ann, app = entity_of({"user": "ann"}), entity_of({"client-id": "app"})
    log = MetadataLog(new_state())
    log.append([quota_record(ann, "producer_byte_rate", 5.0)], log.epoch)
    log.append([quota_record(app, "producer_byte_rate", 6.0)], log.epoch)
    restored = log.state.empty()
    restored.replay(log.state.snapshot(), log.end_offset)
    assert restored.image.quotas == {ann: {"producer_byte_rate": 5.0}, app: {"producer_byte_rate": 6.0}}
