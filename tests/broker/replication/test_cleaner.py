"""The background cleaner of one broker: which log it compacts next, and when."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka2.broker.config.configs import BrokerConfig, TopicConfig
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.replication.log_cleaner import PAUSE, CompactionPolicy, LogCleaner, compaction_of
from pykafka2.errors import InvalidConfig
from tests.broker.support.batches import batch, view

NOW_MS = 1_767_225_600_000
COMPACTED = {"cleanup.policy": "compact"}


def replica(
    topic: str, batches: int, *, malformed: bool = False, config: dict[str, str] | None = None
) -> SimpleNamespace:
    """A replica of one rolled segment, with the same key in each batch."""
    log = PartitionLog(topic, 0, topic.encode().ljust(16))
    for _ in range(batches):
        log.append_as_leader(view(batch([b"v"], keys=[b"k"], count=9 if malformed else None)), 0)
    log.advance_high_watermark(log.log_end_offset)
    log.roll()
    topic_config = TopicConfig(COMPACTED if config is None else config, BrokerConfig({}))
    return SimpleNamespace(key=(topic, 0), log=log, config=topic_config)


def cleaner_of(*replicas: SimpleNamespace, config: dict[str, object] | None = None) -> LogCleaner:
    hosted: Any = SimpleNamespace(replicas={one.key: one for one in replicas})
    return LogCleaner(hosted, BrokerConfig({"log.cleaner.backoff.ms": 5000, **(config or {})}))


def rounds(cleaner: LogCleaner) -> float:
    """Run all steps that are due. Return how long the cleaner rests then."""
    due, now = 0.0, 0.0
    while due - now <= PAUSE * 1.5:
        now, due = due, cleaner.run(due, NOW_MS)
    return due - now


def clean_offsets(*replicas: SimpleNamespace) -> list[int]:
    return [one.log.clean_offset for one in replicas]


def test_every_dirty_log_is_compacted_before_the_cleaner_rests() -> None:
    first, second = replica("a", 3), replica("b", 5)
    assert rounds(cleaner_of(first, second)) == pytest.approx(5.0)
    assert clean_offsets(first, second) == [3, 5]


def test_topics_that_are_only_deleted_are_not_compacted() -> None:
    plain, both = replica("a", 3, config={}), replica("b", 3, config={"cleanup.policy": "compact,delete"})
    rounds(cleaner_of(plain, both))
    assert clean_offsets(plain, both) == [0, 3]


def test_dirtiest_log_is_compacted_first() -> None:
    config = {**COMPACTED, "min.cleanable.dirty.ratio": "0"}
    half, whole = replica("half", 3, config=config), replica("whole", 3, config=config)
    rounds(cleaner_of(half))
    half.log.append_as_leader(view(batch([b"v"], keys=[b"k"])), 0)
    half.log.advance_high_watermark(half.log.log_end_offset)
    half.log.roll()
    cleaner = cleaner_of(whole, half)
    while not whole.log.clean_offset:
        assert half.log.clean_offset == 3, "the half clean log is later"
        cleaner.run(0.0, NOW_MS)
    assert half.log.clean_offset == 3
    rounds(cleaner)
    assert clean_offsets(half, whole) == [4, 3]


def test_log_cleaner_enable_turns_the_cleaner_off() -> None:
    dirty = replica("a", 3)
    assert rounds(cleaner_of(dirty, config={"log.cleaner.enable": False})) == pytest.approx(5.0)
    assert clean_offsets(dirty) == [0]


def test_malformed_log_is_left_out_and_the_others_are_compacted(caplog: pytest.LogCaptureFixture) -> None:
    bad, good = replica("bad", 3, malformed=True), replica("good", 3)
    cleaner = cleaner_of(bad, good)
    with caplog.at_level(logging.WARNING):
        assert rounds(cleaner) == pytest.approx(5.0)
        assert rounds(cleaner) == pytest.approx(5.0)
    assert clean_offsets(bad, good) == [0, 3]
    (line,) = [one.getMessage() for one in caplog.records]
    assert line.startswith("Failed to compact a log, which is skipped from now on: bad-0")


def test_policy_has_the_options_of_the_topic() -> None:
    options = {
        "cleanup.policy": "delete,compact",
        "min.cleanable.dirty.ratio": "0.25",
        "delete.retention.ms": "1",
        "min.compaction.lag.ms": "2",
        "max.compaction.lag.ms": "3",
    }
    assert compaction_of(TopicConfig(options, BrokerConfig({}))) == CompactionPolicy(True, 0.25, 1, 2, 3)
    assert compaction_of(TopicConfig({}, BrokerConfig({}))) == CompactionPolicy(compacts=False)


def test_lag_of_compaction_above_its_maximum_is_rejected() -> None:
    """Kafka's LogConfig.validate, with its message; equal values are valid."""
    lags = {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"}
    assert compaction_of(TopicConfig(lags, BrokerConfig({}))).min_lag_ms == 5
    conflict = r"conflict topic config setting min.compaction.lag.ms \(6\) > max.compaction.lag.ms \(5\)"
    with pytest.raises(InvalidConfig, match=conflict):
        TopicConfig({**lags, "min.compaction.lag.ms": "6"}, BrokerConfig({}))
