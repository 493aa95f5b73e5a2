"""All replicas of one broker: appends, reads, and the completion of requests when a replica moves.

A changed high watermark or log end completes requests in the purgatories. These are tried at the end of the
handler's turn (`complete_delayed`), so that a request with many partitions wakes a follower's fetch once.
Access requires the cluster's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pykafka2.broker.base.image import ClusterImage, Key, PartitionImage, TopicImage
from pykafka2.broker.base.timing_wheel import TimingWheel
from pykafka2.broker.config.configs import BrokerConfig, TopicConfig
from pykafka2.broker.log.partition_log import NEVER, Appended, EndMarker, PartitionLog
from pykafka2.broker.log.producer_state import VerificationGuard
from pykafka2.broker.log.record_validation import RecordValidation
from pykafka2.broker.log.storage import LogStorage
from pykafka2.broker.log.validation import single_batch, start_validation, validate
from pykafka2.broker.replication.directory_assignments import DirectoryAssignments, LogMoves
from pykafka2.broker.replication.fetch import FetchSession, FetchSessionCache
from pykafka2.broker.replication.isr_manager import IsrManager
from pykafka2.broker.replication.log_cleaner import LogCleaner
from pykafka2.broker.replication.log_manager import LogManager
from pykafka2.broker.replication.purgatory import DelayedProduce, ProduceResult, Purgatory, follower_key
from pykafka2.broker.replication.replica import HostedReplicas, Replica
from pykafka2.broker.replication.replica_reader import ReplicaReader
from pykafka2.clock import Entropy
from pykafka2.errors import (
    BrokerError,
    CorruptMessage,
    InvalidRequiredAcks,
    InvalidTopicException,
    KafkaStorageError,
    MessageTooLarge,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    RecordListTooLarge,
)
from pykafka2.records.batch import Buffer, RecordBatch

logger = logging.getLogger(__name__)

ALL_REPLICAS = -1
LEGAL_ACKS = frozenset({-1, 0, 1})
ADMIN_CLIENT_ID = "__admin_client"
ERRORS_WITHOUT_START = (CorruptMessage, MessageTooLarge, NotLeaderOrFollower, RecordListTooLarge)


class Fetchers(Protocol):
    """The broker's fetchers, as the replica manager calls them (follower_fetcher.py)."""

    def follow(self, replica: Replica, is_new: bool) -> None:
        """Copy a partition from its leader; `is_new`: the leader or its epoch has changed."""
        ...

    def unfollow(self, key: Key) -> None: ...

    def log_start_moved(self, key: Key) -> None: ...


class ReplicaManager:
    """The replicas of one broker.

    `ask_controller` sends ISR changes and the directories of replicas; `on_moved` is called for every moved
    partition at the end of the turn.
    """

    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        logs: LogStorage,
        wheel: TimingWheel,
        image: ClusterImage,
        entropy: Entropy,
        fetchers: Fetchers,
        ask_controller: Callable[[Any, int, Callable[[Any, float], None], float], None],
        on_moved: Callable[[Key], None],
    ) -> None:
        self.broker_id = broker_id
        self.hosted = HostedReplicas(broker_id, image)
        self.replicas = self.hosted.replicas
        self.leader_of, self.replica_of = self.hosted.leader_of, self.hosted.replica_of
        self.produces: Purgatory[Key] = Purgatory("produce", wheel)
        self.fetches: Purgatory[Key | FetchSession] = Purgatory("fetch", wheel)
        self.deletes: Purgatory[Key] = Purgatory("delete-records", wheel)
        self.sessions = FetchSessionCache(config.int("max.incremental.fetch.session.cache.slots"), entropy)
        self.isrs = IsrManager(self.hosted, config.seconds("replica.lag.time.max.ms"), ask_controller)
        self.log_manager = LogManager(self.hosted, self.deletes, self.log_start_moved)
        self.directories = DirectoryAssignments(self.hosted, logs, wheel, ask_controller)
        self.moves = LogMoves(self.hosted, logs, self.directories)
        self.cleaner = LogCleaner(self.hosted, config)
        self.reader = ReplicaReader(
            self.hosted,
            self.isrs,
            self.fetches,
            self.notify_sessions,
            config.get("replica.selector.class") or "",
        )
        self._config = config
        self._logs = logs
        self._fetchers = fetchers
        self._on_moved = on_moved
        self._moved = self.hosted.moved
        self._strict = config.get("log.validate") == "strict"
        self._verifies = True
        self.configure()

    @property
    def image(self) -> ClusterImage:
        """The image that the replicas' roles come from."""
        return self.hosted.image

    def configure(self) -> None:
        """Apply dynamic broker options; `apply` handles topic options."""
        self._verifies = self._config.get("transaction.partition.verification.enable")
        for replica in self.replicas.values():
            replica.log.verifications.required = self._verifies

    # ------------------------------------------------------------------ called by the controller

    def apply(self, image: ClusterImage, changed: Mapping[str, TopicImage | None], now: float) -> None:
        """Lead, follow or drop replicas according to the image."""
        before = self.image
        brokers_changed = image.brokers != before.brokers
        self.hosted.image = image
        for name, topic in changed.items():
            old = before.topics.get(name)
            for key in [(name, number) for number in range(0 if old is None else len(old.partitions))]:
                self.hosted.offline.discard(key)
                if key in self.replicas and (
                    topic is None
                    or self.replicas[key].log.topic_id != topic.id
                    or self.broker_id not in topic.partitions[key[1]].replicas
                ):
                    self._drop(key, now)
            if topic is not None:
                config = topic.config.over(self._config)
                for number, partition in enumerate(topic.partitions):
                    if self.broker_id in partition.replicas:
                        self._host((name, number), topic, partition, config, now)
        self.directories.send(now)
        # ISR membership depends on the brokers, and a change that was rejected can be valid by now.
        if brokers_changed:
            self.isrs.expand(self.replicas.values(), now)
            return
        for name, topic in changed.items():
            keys = [(name, number) for number in range(len(topic.partitions))] if topic is not None else []
            self.isrs.expand([self.replicas[key] for key in keys if key in self.replicas], now)

    def _host(
        self, key: Key, topic: TopicImage, image: PartitionImage, config: TopicConfig, now: float
    ) -> None:
        replica = self.replicas.get(key)
        if replica is not None and replica.image is image and replica.config == config:
            return
        is_new = replica is None
        if replica is not None and image.partition_epoch < replica.image.partition_epoch:
            # The controller's AlterPartition response arrived first; a newer image is on the way.
            replica.configure(config)
            return
        if replica is None:
            try:
                log = self._logs.open(topic.name, topic.id, key[1], image.directory_of(self.broker_id))
            except KafkaStorageError as error:
                logger.error("Cannot host %s-%d: %s", *key, error)
                self.hosted.offline.add(key)
                return
            self.hosted.offline.discard(key)
            log.verifications.required = self._verifies
            replica = self.replicas[key] = Replica(self.broker_id, key, log, image, config)
        if replica.config is not config:
            replica.configure(config)
        if config.get("flush.ms") < NEVER:
            self.log_manager.flush_at = now
        if image.leader == self.broker_id:
            self._fetchers.unfollow(key)
            if replica.lead(image, now):
                # The followers' waiting fetches do not include this partition yet.
                self._moved.update(dict.fromkeys(map(follower_key, replica.followers), True))
            self.isrs.advance_high_watermark(replica, now)
        else:
            changed = replica.follow(image) or is_new
            if not replica.log.is_offline:
                self._fetchers.follow(replica, changed)
        self._moved[key] = True
        self.directories.check(replica)

    def directories_failed(self) -> None:
        """Handle failed data directories: their replicas stop to follow, waiting requests complete."""
        for key, replica in self.replicas.items():
            if replica.log.is_offline:
                self._fetchers.unfollow(key)
                self._moved[key] = True

    def _drop(self, key: Key, now: float) -> None:
        """Drop a replica of a deleted or moved topic: waiting requests complete, then the log is removed."""
        replica = self.replicas.pop(key)
        self._fetchers.unfollow(key)
        self._logs.remove(replica.log)
        self._moved[key] = True

    # ------------------------------------------------------------------ appending

    def start_validation(
        self, key: Key, records: Buffer, version: int, now_ms: int
    ) -> RecordValidation | None:
        """Return the validation that `append` needs, so that the caller can advance it in slices first.

        None if there is none: `append` then finds out why a batch is rejected.
        """
        try:
            self.hosted.check_known(key)
            rules = self.hosted.leader_of(key).batch_rules
            return start_validation(single_batch(records, version), rules, now_ms, strict=self._strict)
        except BrokerError:
            return None

    def append(
        self,
        key: Key,
        records: Buffer | None,
        *,
        acks: int,
        version: int,
        client_id: str | None,
        now: float,
        now_ms: int,
        guard: VerificationGuard | None = None,
        validation: RecordValidation | None = None,
    ) -> ProduceResult:
        """Append one partition's batch as its leader; the result contains errors.

        `guard` is the verification guard of a transaction's first batch, `validation` the result of
        `start_validation`.
        """
        replica = None
        try:
            if key not in self.replicas:
                self.hosted.check_known(key)
            batch = single_batch(records, version)
            if acks not in LEGAL_ACKS:
                raise InvalidRequiredAcks(f"acks {acks} is not one of -1, 0, 1")
            if self.hosted.is_internal(key[0]) and client_id != ADMIN_CLIENT_ID:
                raise InvalidTopicException(f"clients cannot write to the internal topic {key[0]}")
            replica = self.hosted.leader_of(key)
            if acks == ALL_REPLICAS:
                _check_in_sync(replica)
            rules = replica.batch_rules if validation is None else validation.rules
            batch = validate(batch, rules, now_ms, strict=self._strict, validation=validation)
            appended = replica.log.append_as_leader(batch, replica.leader_epoch, guard=guard)
        except BrokerError as error:
            # Kafka returns the log start after validating the batch, but not with these errors.
            log_start = -1
            if replica is not None and not isinstance(error, ERRORS_WITHOUT_START):
                log_start = replica.log.log_start_offset
            return ProduceResult(error, log_start_offset=log_start)
        return self._appended(replica, appended, now)

    def append_marker(self, key: Key, marker: EndMarker, now: float, now_ms: int) -> ProduceResult:
        """End a producer's transaction in one partition as its leader, as with acks=all."""
        try:
            replica = self.hosted.leader_of(key)
            _check_in_sync(replica)
            appended = replica.log.append_marker(marker, replica.leader_epoch, now_ms)
        except BrokerError as error:
            return ProduceResult(error)
        return self._appended(replica, appended, now)

    def _appended(self, replica: Replica, appended: Appended, now: float) -> ProduceResult:
        """Record an append and return the result for it."""
        if not appended.is_duplicate:
            self._moved.setdefault(replica.key, False)
            if len(replica.image.isr) == 1:
                self.isrs.advance_high_watermark(replica, now)
        return ProduceResult(
            None,
            appended.base_offset,
            appended.log_append_time,
            replica.log.log_start_offset,
            appended.last_offset + 1,
        )

    def append_from_coordinator(
        self,
        key: Key,
        batch: RecordBatch,
        now: float,
        *,
        needs_in_sync: bool,
        guard: VerificationGuard | None = None,
    ) -> int:
        """Append a coordinator's batch as the leader of its partition. Return the offset after it.

        Raise `NotLeaderOrFollower`, `MessageTooLarge`, or with `needs_in_sync` `NotEnoughReplicas`.
        """
        replica = self.hosted.leader_of(key)
        if needs_in_sync:
            _check_in_sync(replica)
        if len(batch.buffer) > replica.config.get("max.message.bytes"):
            raise MessageTooLarge(f"{len(batch.buffer)} bytes exceed max.message.bytes of {key[0]}-{key[1]}")
        appended = replica.log.append_as_leader(batch, replica.leader_epoch, from_client=False, guard=guard)
        self._moved.setdefault(key, False)
        if len(replica.image.isr) == 1:
            self.isrs.advance_high_watermark(replica, now)
        return appended.last_offset + 1

    def is_replicated(self, key: Key, result: ProduceResult) -> bool:
        """Return whether all replicas that acks=all requires have a batch.

        `await_replicas` would then complete at once and without an error.
        """
        replica = self.replicas.get(key)
        return (
            replica is not None
            and replica.is_leader
            and replica.log.high_watermark >= result.required_offset
            and replica.pending_isr is None
            and replica.has_enough_in_sync
        )

    def await_replicas(
        self,
        results: dict[Key, ProduceResult],
        deadline: float,
        on_done: Callable[[dict[Key, ProduceResult]], None],
        now: float,
    ) -> DelayedProduce | None:
        """Call `on_done` once the replicas have the appended batches.

        Return the operation if it must wait.
        """
        operation = DelayedProduce(deadline, self.hosted, results, on_done)
        if operation.try_complete(None, now) or self.produces.try_complete_else_watch(
            operation, operation.keys, now, was_tried=True
        ):
            return None
        return operation

    # ------------------------------------------------------------------ finding replicas

    def log_of(self, key: Key) -> PartitionLog:
        """Return the log of this broker's replica, even if its data directory has failed."""
        replica = self.replicas.get(key)
        return self.hosted.replica_of(key).log if replica is None else replica.log

    # ------------------------------------------------------------------ completion

    def moved(self, key: Key) -> None:
        """Mark a changed partition; `complete_delayed` tries the operations that wait for it."""
        self._moved[key] = True

    def log_start_moved(self, key: Key) -> None:
        """Handle an advanced log start: readers, waiting deletions and the leader are notified."""
        self._moved.setdefault(key, False)
        self._fetchers.log_start_moved(key)

    def is_awaited(self, key: Key) -> bool:
        """Return whether a waiting request may depend on this partition."""
        return (
            self.fetches.is_watched(key)
            or self.produces.is_watched(key)
            or self.deletes.is_watched(key)
            or self.sessions.is_watched(key)
        )

    @property
    def has_moved(self) -> bool:
        return bool(self._moved)

    def complete_delayed(self, now: float) -> None:
        """Try the requests that wait for moved partitions."""
        while self._moved:
            moved = list(self._moved.items())
            sessions = self.notify_sessions()
            self._moved.clear()
            for key, may_be_safe in moved:
                if may_be_safe:
                    self.produces.check(key, now)
                self.fetches.check(key, now)
                self.deletes.check(key, now)
                self._on_moved(key)
            for session in sessions:
                self.fetches.check(session, now)

    def notify_sessions(self) -> dict[FetchSession, None]:
        """Return the fetch sessions that contain moved partitions."""
        if not self._moved or not self.sessions.by_id:
            return {}
        return dict.fromkeys(session for key in self._moved for session in self.sessions.moved(key))

    def expire_producers(self, before_ms: int) -> int:
        """Drop producers and verifications that are inactive since then. Return their number."""
        logs = [replica.log for replica in self.replicas.values()]
        return sum(log.producers.expire(before_ms) + log.verifications.expire(before_ms) for log in logs)


def _check_in_sync(replica: Replica) -> None:
    """Raise `NotEnoughReplicas` if the ISR is smaller than min.insync.replicas."""
    if not replica.has_enough_in_sync:
        raise NotEnoughReplicas(
            f"{replica.key[0]}-{replica.key[1]} has {len(replica.image.isr)} replicas in sync, "
            f"min.insync.replicas is {replica.min_isr}"
        )
