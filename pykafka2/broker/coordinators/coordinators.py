"""A broker's coordinators on its partitions of the internal topics.

Connects the replicas and the shards: when the broker becomes the leader of a partition, a shard is created
and its log is loaded in its own turn; it serves until the leader changes. Records are appended as the leader,
and responses wait for the high watermark. The coordinators and their messages are imported when the broker
first leads such a partition, or first gets a request for one. Access requires the cluster's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from pykafka2.broker.base.image import GROUP_RESOURCE, ClusterImage, TopicImage
from pykafka2.broker.coordinators.inter_broker import InterBrokerSender, ShareStateClient
from pykafka2.broker.coordinators.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    partitions_of,
)
from pykafka2.broker.coordinators.replica_log import ImageTopics, ReplicaLog
from pykafka2.broker.node import Node
from pykafka2.broker.replication.replica_manager import ReplicaManager
from pykafka2.clock import FOREVER
from pykafka2.errors import KafkaStorageError
from pykafka2.protocol.struct import Request, Response

if TYPE_CHECKING:
    from pykafka2.broker.base.image import Key
    from pykafka2.broker.coordinators.groups.service import GroupCoordinator
    from pykafka2.broker.coordinators.replay import Caller
    from pykafka2.broker.coordinators.runtime import CoordinatorService
    from pykafka2.broker.coordinators.share.service import ShareCoordinator
    from pykafka2.broker.coordinators.transactions.marker_sender import MarkerSender
    from pykafka2.broker.coordinators.transactions.service import TransactionCoordinator
    from pykafka2.broker.coordinators.transactions.verifier import Verifier
    from pykafka2.broker.server.request_context import RequestContext

logger = logging.getLogger(__name__)

INTERNAL = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC)
CODECS = {
    OFFSETS_TOPIC: "offsets.topic.compression.codec",
    SHARE_STATE_TOPIC: "share.coordinator.state.topic.compression.codec",
}
"""Kafka has no such option for the transaction log."""


class Coordinators:
    """The coordinators of one broker, from its start to its stop."""

    def __init__(
        self,
        node: Node,
        replicas: ReplicaManager,
        inter_broker: InterBrokerSender,
        *,
        new_id: Callable[[], str],
        next_producer_id: Callable[[], int],
        share_persister: Callable[[], ShareStateClient],
    ) -> None:
        self._node = node
        self._replicas = replicas
        self.inter_broker = inter_broker
        self.share_persister = share_persister
        self._new_id = new_id
        self._next_producer_id = next_producer_id
        self._groups: GroupCoordinator | None = None
        self._transactions: TransactionCoordinator | None = None
        self._shares: ShareCoordinator | None = None
        self.markers: MarkerSender | None = None
        """Sends committed markers at the end of a turn; None until the first transaction."""
        self._verifier: Verifier | None = None
        self._logs: dict[Key, ReplicaLog] = {}
        self.epochs: dict[Key, int] = {}
        """The leader epochs of the coordinated partitions."""
        self.due = FOREVER
        """When `run` has work. An attribute, as each turn of a handler reads it."""
        self._to_load: dict[Key, None] = {}
        self._shapes: dict[str, tuple[bytes, int]] = {}
        self.is_loading_held = False

    def hold_loading(self, is_held: bool) -> None:
        """Keep partitions in COORDINATOR_LOAD_IN_PROGRESS, or load them; a test's control."""
        self.is_loading_held = is_held
        self._note_due()

    # ------------------------------------------------------------------ the coordinators

    @property
    def groups(self) -> GroupCoordinator:
        if self._groups is None:
            from pykafka2.broker.coordinators.groups.service import GroupCoordinator
            from pykafka2.broker.coordinators.settings import group_settings

            self._groups = GroupCoordinator(
                group_settings(
                    self._node.config,
                    is_before_4_0=not self._node.release.is_since("4.0"),
                    is_before_4_4=not self._node.release.is_since("4.4"),
                ),
                self._partition_count(OFFSETS_TOPIC),
                self._wall_ms,
                self._new_id,
                self._group_configs,
            )
            self._groups.on_problem = self._node.problems.note
            self._groups.on_due = self._note_due
            self._groups.share_persister = self.share_persister
            self._groups.clock = self._now
            self._groups.on_topics(ImageTopics(self._node.image), self._now())
        return self._groups

    @property
    def transactions(self) -> TransactionCoordinator:
        if self._transactions is None:
            from pykafka2.broker.coordinators.settings import transaction_settings
            from pykafka2.broker.coordinators.transactions.marker_sender import MarkerSender
            from pykafka2.broker.coordinators.transactions.service import TransactionCoordinator

            version = self._node.image.transaction_version
            self._transactions = TransactionCoordinator(
                transaction_settings(self._node.config, version),
                self._partition_count(TRANSACTIONS_TOPIC),
                self._wall_ms,
                self._next_producer_id,
                self._partition_count(OFFSETS_TOPIC),
            )
            self._transactions.on_problem = self._node.problems.note
            self._transactions.on_due = self._note_due
            self._transactions.on_topics(ImageTopics(self._node.image))
            self.markers = MarkerSender(self._node, self.inter_broker, self._transactions)
        return self._transactions

    @property
    def transactions_or_none(self) -> TransactionCoordinator | None:
        """None if it was never used here."""
        return self._transactions

    @property
    def shares(self) -> ShareCoordinator:
        if self._shares is None:
            from pykafka2.broker.coordinators.settings import share_settings
            from pykafka2.broker.coordinators.share.service import ShareCoordinator

            self._shares = ShareCoordinator(
                share_settings(self._node.config),
                self._partition_count(SHARE_STATE_TOPIC),
                self._wall_ms,
                ImageTopics(self._node.image),
            )
            self._shares.on_problem = self._node.problems.note
            self._shares.on_due = self._note_due
        return self._shares

    @property
    def verifier(self) -> Verifier:
        """The verifier of batches that start a transaction."""
        if self._verifier is None:
            from pykafka2.broker.coordinators.transactions.verifier import Verifier

            self._verifier = Verifier(self._node, self._replicas, self.inter_broker)
        return self._verifier

    def _group_configs(self, group_id: str) -> Mapping[str, str]:
        """Return the options of a group; two broker options are dynamic (KIP-1263)."""
        node = self._node
        dynamic = {
            f"{kind}.assignment.interval.ms": str(node.config.int(f"group.{kind}.assignment.interval.ms"))
            for kind in ("consumer", "share")
        }
        return {**dynamic, **node.image.configs_of(GROUP_RESOURCE, group_id)}

    def _service(self, topic: str) -> CoordinatorService[Any]:
        if topic == OFFSETS_TOPIC:
            return self.groups
        return self.transactions if topic == TRANSACTIONS_TOPIC else self.shares

    def _services(self) -> list[CoordinatorService[Any]]:
        """Return the coordinators that were used here."""
        services = (self._groups, self._transactions, self._shares)
        return [service for service in services if service is not None]

    def _partition_count(self, topic: str) -> int:
        image = self._node.image.topics.get(topic)
        return partitions_of(self._node.config, topic) if image is None else len(image.partitions)

    def _now(self) -> float:
        return self._node.clock.monotonic()

    def _wall_ms(self, at: float) -> int:
        clock = self._node.clock
        return clock.wall_ms() + round((at - clock.monotonic()) * 1000)

    # ------------------------------------------------------------------ called by the broker

    def apply(self, image: ClusterImage, changed: Mapping[str, TopicImage | None], now: float) -> None:
        """Apply changed leaders of internal partitions and changed topics."""
        self._note_topics(image, changed, now)
        if self._transactions is not None:
            self._transactions.use_version(image.transaction_version)
        for topic in INTERNAL:
            if topic in changed:
                self._take_up(topic, changed[topic])

    def _take_up(self, topic: str, image: TopicImage | None) -> None:
        partitions = () if image is None else image.partitions
        for key in [key for key in self.epochs if key[0] == topic]:
            led = key[1] < len(partitions) and partitions[key[1]].leader == self._node.id
            if not led:
                self._resign(key)
        for number, partition in enumerate(partitions):
            key = (topic, number)
            if partition.leader == self._node.id and self.epochs.get(key) != partition.leader_epoch:
                self._elect(key, partition.leader_epoch)

    def _elect(self, key: Key, leader_epoch: int) -> None:
        topic, number = key
        node = self._node
        codec = node.config.int(CODECS[topic]) if topic in CODECS else 0
        log = self._logs[key] = ReplicaLog(self._replicas, key, self._wall_ms, node.events, codec)
        self._service(topic).partitions = self._partition_count(topic)
        if topic == OFFSETS_TOPIC:
            self.groups.elect(number, log)
        elif topic == TRANSACTIONS_TOPIC:
            self.transactions.elect(number, leader_epoch, log)
        else:
            self.shares.elect(number, log)
        self.epochs[key] = leader_epoch
        self._to_load[key] = None
        self._note_due()

    def _resign(self, key: Key) -> None:
        del self.epochs[key], self._logs[key]
        self._to_load.pop(key, None)
        self._service(key[0]).resign(key[1])
        self._note_due()

    def _note_topics(self, image: ClusterImage, changed: Mapping[str, TopicImage | None], now: float) -> None:
        """Notify the coordinators of created, deleted or grown topics.

        Most changes are of leaders and ISRs.
        """
        is_new = False
        for name, topic in changed.items():
            shape = None if topic is None else (topic.id, len(topic.partitions))
            if self._shapes.get(name) != shape:
                is_new = True
                if shape is None:
                    del self._shapes[name]
                else:
                    self._shapes[name] = shape
        if not is_new:
            return
        if self._groups is not None:
            self._groups.on_topics(ImageTopics(image), now)
        if self._transactions is not None:
            self._transactions.on_topics(ImageTopics(image))
        if self._shares is not None:
            self._shares.on_topics(ImageTopics(image), now)

    def on_moved(self, key: Key) -> None:
        """Handle a moved coordinated partition: responses can wait for its high watermark."""
        log = self._replicas.log_of(key)
        self._service(key[0]).on_high_watermark(key[1], log.high_watermark)

    # ------------------------------------------------------------------ turns

    def _note_due(self) -> None:
        """Set `due` after a change of what it depends on."""
        if self._to_load and not self.is_loading_held:
            self.due = 0.0
            return
        self.due = min([service.due for service in self._services()], default=FOREVER)

    def run(self, now: float) -> None:
        """Load waiting partitions and run due timers."""
        if self._to_load and not self.is_loading_held:
            to_load, self._to_load = self._to_load, {}
            for key in to_load:
                self._load(key, now)
        for service in self._services():
            service.poll(now)
        self._note_due()

    def _load(self, key: Key, now: float) -> None:
        from pykafka2.broker.coordinators.replica_log import entries_in

        try:
            log = self._replicas.log_of(key)
            entries = entries_in(log.batches(log.log_start_offset))
            self._service(key[0]).load(key[1], entries, log.log_end_offset, now)
        except KafkaStorageError as error:
            # The controller elects another leader.
            logger.error("broker %d cannot load %s-%d: %s", self._node.id, *key, error)
        except Exception:
            # A client with the admin client's id can write anything there (rule
            # internal-topics-are-not-for-clients). A bad log affects this one partition only, which has no
            # coordinator until its leader changes.
            logger.exception("broker %d cannot load %s-%d", self._node.id, *key)

    # ------------------------------------------------------------------ requests

    def submit(
        self,
        service: CoordinatorService[Any],
        context: RequestContext,
        request: Request[Any],
        now: float,
        may_describe: Callable[[str], bool] | None = None,
        rules: object = None,
    ) -> None:
        """Submit a request to a coordinator, which responds now or later; a late response is dropped.

        With access `rules`, `may_describe` decides which topics the caller can see.
        """

        def respond(response: Response) -> None:
            if not context.is_complete:
                context.respond(response)

        caller = caller_of(context)
        if may_describe is not None:
            caller = attrs.evolve(caller, may_describe=may_describe, rules=rules)
        service.submit(caller, request, now).then(respond)

    def coordinates(self, key: Key) -> bool:
        """Return whether this broker coordinates a partition of an internal topic, loaded or not."""
        return key in self.epochs

    def is_active(self, key: Key) -> bool:
        """Return whether this broker coordinates the partition and has loaded its log."""
        return key in self.epochs and self._service(key[0]).runtimes[key[1]].is_active

    def has_failed(self, key: Key) -> bool:
        """Return whether loading the log of this partition failed, so that it has no coordinator."""
        return self.coordinates(key) and self._service(key[0]).runtimes[key[1]].has_failed

    def log_of(self, key: Key) -> ReplicaLog:
        """Return the log of a coordinated partition."""
        return self._logs[key]


def caller_of(context: RequestContext) -> Caller:
    """Return the sender of a request in Kafka's notation: hosts start with a slash."""
    from pykafka2.broker.coordinators.replay import Caller

    host = context.peer.rpartition(":")[0].strip("[]")
    return Caller(context.version, context.client_id or "", f"/{host}")
