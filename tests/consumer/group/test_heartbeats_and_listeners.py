"""The small parts of a membership: heartbeats, the clock of polls, listeners, patterns."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from pykafka2.backoff import Backoff
from pykafka2.clock import FOREVER
from pykafka2.cluster.snapshot import ClusterSnapshot, TopicSnapshot
from pykafka2.consumer.group.listeners import ConsumerRebalanceListener, listeners_of
from pykafka2.consumer.group.member import Heartbeat
from pykafka2.consumer.inspection import group_words
from pykafka2.consumer.state.poll_interval import PollClock
from pykafka2.consumer.state.subscription import Subscription, topic_pattern
from pykafka2.errors import IllegalArgument
from pykafka2.types import PartitionInfo, TopicPartition
from tests.cluster.scripted import VirtualClock

ONE = [TopicPartition("orders", 0)]


def heartbeat() -> Heartbeat:
    beat = Heartbeat(3.0, 45.0, Backoff(0.1, 1.0, random.Random(0)))
    beat.begin(100.0)
    return beat


# ---------------------------------------------------------------------------------------- heartbeats


def test_a_heartbeat_follows_the_one_before_after_the_interval() -> None:
    beat = heartbeat()
    assert not beat.is_due(102.9)
    assert beat.is_due(103.0)
    beat.on_sent(103.0)
    assert not beat.is_due(110.0), "one at a time"
    assert beat.wake_at() == FOREVER
    beat.on_answer(104.0)
    assert beat.wake_at() == 106.0, "an answer that is late does not make the next one late"


def test_a_failed_heartbeat_is_repeated_soon() -> None:
    beat = heartbeat()
    for attempt, longest in enumerate((0.12, 0.24, 0.48)):
        beat.on_sent(103.0)
        beat.on_failure(103.0)
        assert 103.0 < beat.wake_at() <= 103.0 + longest, attempt


def test_a_lost_answer_leaves_time_for_another_heartbeat() -> None:
    beat = heartbeat()
    assert beat.interval + beat.timeout < beat.session_timeout


def test_session_expires_without_a_response() -> None:
    beat = heartbeat()
    assert not beat.is_session_over(145.0)
    assert beat.is_session_over(145.1)


def test_heartbeat_is_not_due_before_the_first_join_and_after_the_end() -> None:
    beat = heartbeat()
    beat.end()
    assert not beat.is_due(1e9)
    assert beat.wake_at() == FOREVER


# ---------------------------------------------------------------------------------------- polls


def test_the_time_between_polls_is_measured_from_the_end_of_one_to_the_next() -> None:
    clock = VirtualClock()
    polls = PollClock(clock, 10.0, clock.now)
    clock.now += 4
    assert polls.enter() == 4
    clock.now += 100
    assert polls.is_overrun(clock.now), "what poll() calls is the application's"
    assert polls.why_overrun(clock.now).startswith("poll() was blocked for 100.0 s by application code")
    polls.wait()
    assert polls.gap(clock.now) == 0, "the application waits for us"
    assert not polls.is_overrun(clock.now)
    polls.leave()
    clock.now += 10.5
    assert polls.is_overrun(clock.now)
    assert polls.enter() == 10.5
    assert polls.complaint(10.5).startswith(
        "poll() was not called for 10.5 s, longer than max_poll_interval_ms=10000; raise it"
    )


# ---------------------------------------------------------------------------------------- listeners


class Kind:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_partitions_revoked(self, partitions: Any) -> None:
        self.calls.append("revoked")


def test_listener_object_needs_only_the_methods_it_implements() -> None:
    kind = Kind()
    listeners = listeners_of(kind, None, None, None)
    listeners.assigned(ONE)
    listeners.revoked(ONE)
    listeners.lost(ONE)
    assert kind.calls == ["revoked", "revoked"], "losses are revocations if on_partitions_lost is not defined"


def test_the_base_class_hands_losses_to_revocations() -> None:
    class Mine(ConsumerRebalanceListener):
        calls = 0

        def on_partitions_revoked(self, revoked: Any) -> None:
            self.calls += 1

    mine = Mine()
    mine.on_partitions_lost(ONE)
    assert mine.calls == 1


@pytest.mark.parametrize(
    ("listener", "words"),
    [
        ((object(), None, None, None), "on_partitions_assigned"),
        ((Kind(), print, None, None), "not both"),
        ((None, 3, None, None), "not callable"),
        ((type("Odd", (), {"on_partitions_lost": 1})(), None, None, None), "on_partitions_lost"),
    ],
)
def test_invalid_listener_is_rejected(listener: Any, words: str) -> None:
    with pytest.raises(IllegalArgument, match=words):
        listeners_of(*listener)


# ---------------------------------------------------------------------------------------- patterns


def snapshot(*names: str, internal: str = "") -> ClusterSnapshot:
    info = {0: PartitionInfo("t", 0, 0, 0, (0,), (0,))}
    topics = {name: TopicSnapshot(name, partitions=info, is_internal=name == internal) for name in names}
    topics["gone"] = TopicSnapshot("gone", error_code=3)
    return ClusterSnapshot(topics=topics)


def test_a_pattern_names_topics_by_their_beginning() -> None:
    known = snapshot("orders", "orders-eu", "reorders", "Orders", "__offsets", internal="__offsets")
    for pattern, found in {
        "orders": {"orders", "orders-eu"},
        "orders$": {"orders"},
        ".*orders": {"orders", "orders-eu", "reorders"},
        "(?i)orders$": {"orders", "Orders"},
        ".*": {"orders", "orders-eu", "reorders", "Orders"},
    }.items():
        assert topic_pattern(pattern, hides_internal=True).topics(known) == found, pattern
    assert topic_pattern(re.compile("__.*"), hides_internal=False).topics(known) == {"__offsets"}


@pytest.mark.parametrize("pattern", ["(", 3, b"orders", ["orders"]])
def test_invalid_pattern_is_rejected(pattern: Any) -> None:
    with pytest.raises(IllegalArgument, match="pattern="):
        topic_pattern(pattern, hides_internal=True)


# ---------------------------------------------------------------------------------------- words


def test_log_line_for_ten_thousand_revoked_partitions_is_short() -> None:
    subscription = Subscription(by_group=True)
    subscription.subscribe(["orders"])
    going = [TopicPartition("orders", number) for number in range(10_000)]
    subscription.replace(going)
    subscription.mark_revoking(going)
    health = {
        "id": "readers",
        "protocol": "classic",
        "state": "must join",
        "because": "",
        "failure": None,
        "coordinator": 1,
        "unfinished_rebalances": 0,
        "last_commit_error": None,
        "committed_offsets_awaited": {},
    }
    [line] = [line for line in group_words(health, subscription) if "revoked as soon as" in line]
    assert line.startswith("orders-0, orders-1,")
    assert "and 9980 more" in line
