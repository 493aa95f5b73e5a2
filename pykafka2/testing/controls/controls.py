"""What a test can do to a running cluster: `cluster.controls.crash_broker(1)`, `.cut_link(0, 2)`,
`.hold(FetchRequest)`.

Links are in link_controls.py, fault rules in rule_controls.py, ISRs in isr_controls.py.  Every call has
taken effect when it returns.  Any thread but the cluster's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn

from pykafka2.broker.base.arguments import partition_key
from pykafka2.broker.config.configs import nearest
from pykafka2.testing.controls.controller import ControllerControls
from pykafka2.testing.controls.isr import IsrControls
from pykafka2.testing.controls.links import LinkControls
from pykafka2.testing.controls.rules import RuleControls
from pykafka2.types import TopicPartition

if TYPE_CHECKING:
    from pykafka2.testing.cluster import KafkaCluster


class Controls(RuleControls, LinkControls, IsrControls, ControllerControls):
    """The levers of one cluster.  A misspelt one raises `AttributeError` that names the nearest."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster

    # ------------------------------------------------------------------ brokers

    def crash_broker(
        self, broker_id: int, *, lose_unreplicated: bool = True, unnoticed: bool = False
    ) -> None:
        """Kill a broker: its connections are reset, its leaderships move to replicas in sync.

        With `lose_unreplicated` its logs end at its high watermarks afterwards, as if the rest had not
        reached the disk.  With `unnoticed` the controller learns of it only when the broker's session has
        ended (broker.session.timeout.ms), and the others miss it only then if it was the controller; by
        default everybody knows at once, which is faster than Kafka.
        """
        self._cluster.check()
        self._cluster.broker(broker_id).stop(
            crash=True, lose_unreplicated=lose_unreplicated, is_unnoticed=unnoticed
        )

    def kill_broker(self, broker_id: int, *, keep_unflushed: bool = False) -> None:
        """As `crash_broker`: with `keep_unflushed` everything was on disk, else what was not replicated is
        lost.
        """
        self.crash_broker(broker_id, lose_unreplicated=not keep_unflushed)

    def stop_broker(self, broker_id: int) -> None:
        """Stop a broker in good order: its leaderships move first, nothing is lost."""
        self._cluster.check()
        self._cluster.broker(broker_id).stop(crash=False)

    def restart_broker(self, broker_id: int) -> None:
        """Start a broker again, on the same port and logs; it joins as a follower.  Stops it first if it
        runs.
        """
        self._cluster.check()
        broker = self._cluster.broker(broker_id)
        broker.stop(crash=False)
        broker.start()
        with self._cluster.lock:
            for other in self._cluster.brokers:
                other.fetchers.retry()

    def pause_broker(self, broker_id: int) -> None:
        """Let a broker stand still, as by SIGSTOP: connections stay open, nothing is answered, fetched or
        said to the controller, which fences it when its session has ended.
        """
        self._cluster.check()
        with self._cluster.lock:
            self._cluster.broker(broker_id).pause()
            text = f"broker {broker_id} paused"
            self._cluster.events.note(self._now(), "broker", text, broker=broker_id, state="paused")

    def resume_broker(self, broker_id: int) -> None:
        """Let a paused broker go on; it handles what has come meanwhile first, and learns the news later."""
        self._cluster.check()
        with self._cluster.lock:
            self._cluster.broker(broker_id).resume()
            text = f"broker {broker_id} resumed"
            self._cluster.events.note(self._now(), "broker", text, broker=broker_id, state="resumed")

    # ------------------------------------------------------------------ partitions

    def move_leader(
        self, partition: TopicPartition | tuple[str, int], to: int, *, unclean: bool = True
    ) -> None:
        """Make another replica lead, with a new leader epoch; what it lacks is lost if it is not in sync.

        With unclean=False such a one is refused, `IneligibleReplica`.
        """
        self._cluster.check()
        topic, number = partition_key(self._cluster.controller.image, partition)
        self._cluster.broker(to)
        self._cluster.controller.run(
            f"move the leader of {topic}-{number} to broker {to}",
            lambda active: active.move_leader(topic, number, to, unclean=unclean),
        )

    def roll_segments(self, partition: TopicPartition | tuple[str, int] | None = None) -> int:
        """Begin a new segment in every replica's log, of one partition or all; how many logs were rolled.

        Logs whose last segment is empty stay as they are.
        """
        self._cluster.check()
        keys = None if partition is None else [partition_key(self._cluster.controller.image, partition)]
        with self._cluster.lock:
            return sum(one.replicas.keeper.roll(keys) for one in self._cluster.brokers if one.is_running)

    def apply_retention(self, partition: TopicPartition | tuple[str, int] | None = None) -> int:
        """Delete the segments that retention.ms and retention.bytes let go, on every replica of one partition
        or all, without waiting for log.retention.check.interval.ms; how many segments went.
        """
        self._cluster.check()
        keys = None if partition is None else [partition_key(self._cluster.controller.image, partition)]
        with self._cluster.lock:
            return sum(one.apply_retention(keys) for one in self._cluster.brokers if one.is_running)

    def pause_followers(
        self,
        partition: TopicPartition | tuple[str, int] | None = None,
        *,
        brokers: Iterable[int] | None = None,
    ) -> None:
        """Stop replication: of one partition or all, by some brokers or all.  What is under way is lost; it
        is fetched again after `resume_followers`.
        """
        self._cluster.check()
        keys = None if partition is None else [partition_key(self._cluster.controller.image, partition)]
        chosen = self._cluster.brokers if brokers is None else [self._cluster.broker(one) for one in brokers]
        with self._cluster.lock:
            for broker in chosen:
                broker.fetchers.pause(keys)

    def resume_followers(self) -> None:
        """All followers fetch again."""
        with self._cluster.lock:
            for broker in self._cluster.brokers:
                broker.fetchers.resume()

    # ------------------------------------------------------------------ coordinators

    def move_coordinator(self, key: str, to: int, kind: str = "group", *, unclean: bool = True) -> None:
        """Have another broker coordinate a group (with kind="transaction" a transactional id), and all others
        of its partition of the internal topic.  Who waits there is told NOT_COORDINATOR.
        """
        from pykafka2.testing.views.groups import coordinator_partition

        self._cluster.check()
        with self._cluster.lock:
            partition = coordinator_partition(self._cluster, key, kind)
        self.move_leader(partition, to, unclean=unclean)

    def hold_loading(self, broker: int | None = None) -> None:
        """Let coordinators that are elected (on one broker or all) say COORDINATOR_LOAD_IN_PROGRESS until
        `release_loading`.
        """
        self._cluster.check()
        with self._cluster.lock:
            for one in self._cluster.brokers if broker is None else [self._cluster.broker(broker)]:
                one.coordinators.is_loading_held = True

    def release_loading(self) -> None:
        """Coordinators load their logs now."""
        self._cluster.check()
        with self._cluster.lock:
            for one in self._cluster.brokers:
                one.coordinators.is_loading_held = False
                one.wake()

    if not TYPE_CHECKING:  # checkers shall see misspelt names too

        def __getattr__(self, name: str) -> NoReturn:
            """Only reached for names that there are not."""
            known = [word for word in dir(type(self)) if not word.startswith("_")]
            raise AttributeError(f"there is no control {name!r}{nearest(name, known)}")
