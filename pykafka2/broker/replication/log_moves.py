"""Moves logs between the data directories of one broker, while they are in use (AlterReplicaLogDirs).

A copy catches up with its log in short steps. Then the controller stores the new directory (KIP-858), and the
copy takes the log's place. Kafka's ReplicaAlterLogDirsThread. Run by the broker's timers; access requires the
cluster's lock.
"""

from __future__ import annotations

import logging
from typing import Final

from pykafka2.broker.log.storage import LogMove, LogStorage
from pykafka2.broker.replication.directory_assignments import DirectoryAssignments
from pykafka2.broker.replication.hosted import HostedReplicas
from pykafka2.broker.replication.replica import Replica
from pykafka2.clock import FOREVER
from pykafka2.errors import KafkaError

logger = logging.getLogger(__name__)

Ident = tuple[bytes, int]
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
