"""Log directories of replicas: moves between them, and reports of them to the controller (KIP-858).

A broker with several directories chooses one for each new replica, and the metadata must name it: only then
does the controller know which replicas are lost with a directory. One request is in flight at a time. Access
requires the cluster's lock.

A copy catches up with its log in short steps. Then the controller stores the new directory (KIP-858), and the
copy takes the log's place. Kafka's ReplicaAlterLogDirsThread. Run by the broker's timers; access requires the
cluster's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from pykafka2.broker.base.image import UNASSIGNED, Key
from pykafka2.broker.base.timing_wheel import TimingWheel
from pykafka2.broker.log.storage import LogMove, LogStorage
from pykafka2.broker.replication.replica import HostedReplicas, Replica
from pykafka2.clock import FOREVER
from pykafka2.errors import KafkaError
from pykafka2.protocol.messages.broker_lifecycle import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
    AssignReplicasToDirsResponse,
)

ASSIGN_VERSION: Final = 0
RETRY_INTERVAL: Final = 0.5
"""Seconds until replicas are reported again that the controller has rejected."""
MAX_REPLICAS: Final = 2000
"""The replicas in one request, as in Kafka."""

Ident = tuple[bytes, int]
"""Topic id and partition."""


class DirectoryAssignments:
    """The replicas whose directory differs from the one in the metadata."""

    def __init__(
        self,
        hosted: HostedReplicas,
        logs: LogStorage,
        wheel: TimingWheel,
        send: Callable[[Any, int, Callable[[Any, float], None], float], None],
    ) -> None:
        self._hosted = hosted
        self._logs = logs
        self._wheel = wheel
        self._send = send
        self._to_send: dict[Key, None] = {}
        self._targets: dict[Key, bytes] = {}  # the directories that replicas are moving to
        self._is_in_flight = False

    def check(self, replica: Replica) -> None:
        """Note a replica whose directory is not the one in its image, to be sent by `send`."""
        if self._difference(replica) is not None:
            self._to_send[replica.key] = None

    def is_stored(self, replica: Replica, directory: bytes, now: float) -> bool:
        """Return whether the metadata has the directory that a replica moves to. If not, report it."""
        self._targets[replica.key] = directory
        if self._difference(replica) is None:
            return True
        self.check(replica)
        self.send(now)
        return False

    def moved(self, replica: Replica) -> None:
        """Handle the end of a move."""
        self._targets.pop(replica.key, None)

    def forget(self, replica: Replica, now: float) -> None:
        """Handle a cancelled move: the replica's own directory is reported if the other one was."""
        if self._targets.pop(replica.key, None) is not None:
            self.check(replica)
            self.send(now)

    def _difference(self, replica: Replica) -> bytes | None:
        """Return the directory of a replica, or None if the metadata has it already."""
        directory = self._targets.get(replica.key) or self._logs.directory_of(replica.log)
        known = replica.image.directory_of(self._hosted.broker_id)
        return None if directory in (known, UNASSIGNED) else directory

    def send(self, now: float) -> None:
        """Report the noted replicas, unless a request is in flight."""
        own = self._hosted.image.brokers.get(self._hosted.broker_id)
        if self._is_in_flight or not self._to_send or own is None:
            return
        sent: dict[Ident, Key] = {}
        directories: dict[bytes, dict[bytes, list[int]]] = {}
        while self._to_send and len(sent) < MAX_REPLICAS:
            key, _ = self._to_send.popitem()
            replica = self._hosted.replicas.get(key)
            directory = None if replica is None else self._difference(replica)
            if replica is not None and directory is not None:
                sent[replica.log.topic_id, key[1]] = key
                directories.setdefault(directory, {}).setdefault(replica.log.topic_id, []).append(key[1])
        if not sent:
            return
        self._is_in_flight = True
        request = AssignReplicasToDirsRequest(
            broker_id=self._hosted.broker_id,
            broker_epoch=own.epoch,
            directories=[
                AssignReplicasToDirsRequestDirectoryData(
                    id=directory,
                    topics=[
                        AssignReplicasToDirsRequestTopicData(
                            topic_id=topic_id,
                            partitions=[
                                AssignReplicasToDirsRequestPartitionData(partition_index=number)
                                for number in sorted(numbers)
                            ],
                        )
                        for topic_id, numbers in sorted(topics.items())
                    ],
                )
                for directory, topics in sorted(directories.items())
            ],
        )
        self._send(request, ASSIGN_VERSION, lambda response, at: self._on_response(sent, response, at), now)

    def _on_response(
        self, sent: dict[Ident, Key], response: AssignReplicasToDirsResponse, now: float
    ) -> None:
        """Send what has gathered meanwhile, and later again what was rejected."""
        self._is_in_flight = False
        stored = {
            (topic.topic_id, partition.partition_index)
            for directory in response.directories
            for topic in directory.topics
            for partition in topic.partitions
            if not partition.error_code
        }
        rejected = [key for ident, key in sent.items() if ident not in stored]
        self.send(now)
        if rejected:
            self._to_send.update(dict.fromkeys(rejected))
            self._wheel.add(now + RETRY_INTERVAL, self.send)


logger = logging.getLogger(__name__)
"""Topic id and partition."""

STEP_BYTES: Final = 1 << 18
"""The records that are copied before other work of the broker."""
PAUSE: Final = 0.001
"""Seconds between two steps, so that the broker handles requests in between."""
WAIT: Final = 0.05
"""Seconds between two steps of complete copies, which wait for a flush or for the controller."""


class LogMoves:
    """The logs of one broker that move."""

    def __init__(self, hosted: HostedReplicas, logs: LogStorage, assignments: DirectoryAssignments) -> None:
        self._hosted = hosted
        self._logs = logs
        self._assignments = assignments
        self._due: dict[Ident, float] = {}  # the next step of each move

    def begin(self, replica: Replica, path: str, now: float) -> None:
        """Begin to move a replica to another directory, which ends its move to any other one.

        Raise `KafkaStorageError` or `InvalidTopicException`.
        """
        self._logs.move(replica.log, path)
        if not any(move.log is replica.log for move in self._logs.moves):
            self._assignments.forget(replica, now)

    def run(self, now: float) -> float:
        """Run a step of the move that has waited longest. Return the time of the next one, in seconds."""
        moves = {(move.log.topic_id, move.log.partition): move for move in self._logs.moves}
        due = self._due = {ident: self._due.get(ident, now) for ident in moves}
        ident = min(due, key=due.__getitem__, default=None)
        if ident is None or due[ident] > now:
            return FOREVER if ident is None else due[ident]
        pause = self._run_one(moves[ident], now)
        if pause is None:
            del due[ident]
        else:
            due[ident] = now + pause
        return max(min(due.values(), default=FOREVER), now + PAUSE)

    def _run_one(self, move: LogMove, now: float) -> float | None:
        """Run one step. Return the seconds until the next one, or None at the end of the move."""
        replica = self._hosted.replicas.get((move.log.topic, move.log.partition))
        if move.is_offline:
            self._abandon(move, "a data directory is offline")
            return None
        if replica is None or replica.log is not move.log:
            return WAIT  # the metadata has not arrived yet
        try:
            return self._step(move, replica, now)
        except KafkaError as error:
            self._abandon(move, error)
            return None

    def _step(self, move: LogMove, replica: Replica, now: float) -> float | None:
        if not move.step(STEP_BYTES):
            return PAUSE
        if not move.is_flushed() or not self._assignments.is_stored(replica, move.directory, now):
            return WAIT
        move.finish()
        self._assignments.moved(replica)
        logger.info("Moved the log of %s-%d to %s", *replica.key, move.path)
        return None

    def _abandon(self, move: LogMove, why: object) -> None:
        logger.warning(
            "Stopped moving the log of %s-%d to %s: %s", move.log.topic, move.log.partition, move.path, why
        )
        self._logs.abandon(move)
