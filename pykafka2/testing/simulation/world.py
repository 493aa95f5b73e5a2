"""The parts of a scenario for faults and checkers: a cluster, its clients, their history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.errors import KafkaError
from pykafka2.testing.simulation.history import GroupHistory, History
from pykafka2.types import TopicPartition

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient
    from pykafka2.consumer.consumer import KafkaConsumer
    from pykafka2.producer.producer import KafkaProducer
    from pykafka2.records.batch import RecordBatch
    from pykafka2.testing.cluster import KafkaCluster
    from pykafka2.testing.simulation.facade import Simulation
    from pykafka2.testing.views.partitions import PartitionView

GROUP_ID = "counters"
"""The consumer group of a scenario's members; faults of coordinators target its coordinator."""

Held = tuple[int, "list[RecordBatch]"]
"""The content of a log: its start, its batches."""


class World:
    """Access to the parts; `topics` are names with their numbers of partitions."""

    def __init__(self, simulation: Simulation, cluster: KafkaCluster, topics: dict[str, int]) -> None:
        self.simulation = simulation
        self.cluster = cluster
        self.topics = topics
        self.history = History()
        self.groups = GroupHistory()
        self.clients: list[str] = []
        """The places of the clients in the network."""
        self.producers: list[KafkaProducer] = []
        self.consumers: list[KafkaConsumer] = []
        self.broker_ids: list[int] = [broker.id for broker in cluster.brokers]
        self.live_brokers: list[int] = list(self.broker_ids)
        self.is_idempotent = True
        self.watermarks: dict[tuple[int, str, int], list[tuple[float, int]]] = {}
        """By broker and partition: the time and value of each advance of a high watermark."""
        self.deletions: dict[tuple[str, int], list[tuple[float, int]]] = {}
        """Times and offsets of requested deletions (DeleteRecords)."""
        self._deleted: dict[tuple[str, int], dict[int, bytes]] = {}
        self._partitions_of: dict[str, int] = {}
        self._partitions: list[tuple[str, int]] = []
        self._admin: ClusterClient | None = None
        self._decoded: dict[tuple[str, int, int], tuple[Held, list[tuple[int, bytes]]]] = {}

    @property
    def now(self) -> float:
        """Virtual seconds since the simulation began."""
        return self.simulation.now

    def partitions(self) -> list[tuple[str, int]]:
        """All partitions, in order; must not be changed."""
        if self._partitions_of != self.topics:
            self._partitions_of = dict(self.topics)
            self._partitions = [
                (topic, number) for topic in sorted(self.topics) for number in range(self.topics[topic])
            ]
        return self._partitions

    def partition(self, topic: str, number: int) -> PartitionView:
        """Return the cluster's state of a partition."""
        return self.cluster.partition(topic, number)

    def records(self, topic: str, number: int, broker: int | None = None) -> list[tuple[int, bytes]]:
        """Return offsets and values of a replica's log (the leader's by default), all appended records.

        Records that were deleted on request are included.
        """
        log = self.cluster.log(topic, number, broker)
        held = (log.log_start_offset, log.batches())
        known = self._decoded.get((topic, number, log.broker))
        # Batches never change, so their records are cached; all checkers read them at the end.
        if known is None or known[0] != held:
            deleted = self._deleted.get((topic, number), {})
            records = [(offset, value) for offset, value in deleted.items() if offset < log.log_start_offset]
            records += [(record.offset, record.value or b"") for record in log.records()]
            known = self._decoded[topic, number, log.broker] = (held, records)
        return known[1]

    def will_delete(self, topic: str, number: int, upto: int) -> None:
        """Save the committed records below `upto`, which a request is about to delete."""
        kept = self._deleted.setdefault((topic, number), {})
        kept.update((offset, value) for offset, value in self.records(topic, number) if offset < upto)
        self.deletions.setdefault((topic, number), []).append((self.now, upto))
        self._decoded.clear()

    def log_start(self, topic: str, number: int) -> int:
        """Return the start of the leader's log; 0 without a leader."""
        state = self.partition(topic, number)
        leader = state.replicas.get(state.leader)
        return 0 if leader is None else leader.log_start_offset

    @property
    def admin(self) -> ClusterClient:
        """A client for administration by faults, created on first use."""
        if self._admin is None:
            self._admin = self.simulation.client(self.cluster, "admin", request_timeout_ms=3000)
        return self._admin

    def high_watermark(self, topic: str, number: int) -> int:
        """Return the leader's; -1 without a leader."""
        return self.partition(topic, number).high_watermark

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        """Return the committed offset at the group's coordinator, None without one."""
        try:
            return self.cluster.group(group).offsets.get(TopicPartition(topic, partition))
        except KafkaError:
            return None

    def partitions_led_by(self, broker: int) -> list[tuple[str, int]]:
        """Return the partitions whose leader is this broker."""
        return [one for one in self.partitions() if self.partition(*one).leader == broker]

    def may_lose_a_tail(self, broker: int) -> bool:
        """Return whether a broker can lose its unflushed records while no committed record is lost: all
        others are known to be up, and it is nowhere the only one in sync.
        """
        image = self.cluster.controller.image
        are_up = self.live_brokers == self.broker_ids and all(map(self._is_known_to_be_up, self.broker_ids))
        return are_up and not any(
            partition.isr == (broker,) for topic in image.topics.values() for partition in topic.partitions
        )

    def _is_known_to_be_up(self, broker_id: int) -> bool:
        """False after a restart that is unknown to the controller, which will remove it from the ISR."""
        known, broker = self.cluster.controller.image.brokers.get(broker_id), self.cluster.broker(broker_id)
        if known is None or known.is_fenced or broker.is_paused:
            return False
        return known.incarnation_id == broker.lifecycle.incarnation_id

    def move_leader(self, topic: str, number: int, to: int) -> None:
        """Make another replica the leader; raises `IneligibleReplica` if it is not in sync."""
        # Checked when the controller handles it: there may be none now, and the ISR can change before.
        self.cluster.controls.move_leader((topic, number), to, unclean=False)

    def cut_link(self, source: int, target: int) -> None:
        """Cut one direction between two brokers."""
        self.cluster.controls.cut_link(source, target, one_way=True)

    def join_link(self, source: int, target: int) -> None:
        """Restore one direction between two brokers."""
        with self.cluster.lock:
            self.cluster.links.join(source, target)

    def heal(self) -> None:
        """End all faults: join links, start brokers."""
        self.simulation.network.heal()
        self.cluster.controls.heal()
        self.cluster.controls.release_metadata()
        for broker in self.broker_ids:
            if broker not in self.live_brokers:
                self.cluster.controls.restart_broker(broker)
                self.live_brokers.append(broker)
        self.live_brokers.sort()
