"""Quotas in a snapshot of the metadata log, from which a new controller starts."""

from __future__ import annotations

from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller.metadata.log import MetadataLog
from pykafka2.broker.controller.metadata.records import ClientQuotaSet
from pykafka2.broker.controller.metadata.state import State
from pykafka2.broker.quotas.entities import entity_of


def test_snapshot_of_the_metadata_log_keeps_quotas() -> None:
    ann, app = entity_of({"user": "ann"}), entity_of({"client-id": "app"})
    log = MetadataLog(State("cluster", BrokerConfig()))
    log.append([ClientQuotaSet(ann, "producer_byte_rate", 5.0)], log.epoch)
    log.replace_with_snapshot(log.replay())
    log.append([ClientQuotaSet(app, "producer_byte_rate", 6.0)], log.epoch)
    assert log.replay().quotas == {ann: {"producer_byte_rate": 5.0}, app: {"producer_byte_rate": 6.0}}
