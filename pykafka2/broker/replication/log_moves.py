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

STEP_BYTES: Final = 1 << 20
"""The records that all moves together copy before other work of the broker."""
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

    def begin(self, replica: Replica, path: str, now: float) -> None:
        """Begins to move a replica to another directory, which ends its move to any other one.

        Raises `KafkaStorageError` or `InvalidTopicException`.
        """
        self._logs.move(replica.log, path)
        if not any(move.log is replica.log for move in self._logs.moves):
            self._assignments.forget(replica, now)

    def run(self, now: float) -> float:
        """Runs one step of each move. Returns the time of the next one, in seconds."""
        moves = self._logs.moves
        next_at = FOREVER
        for move in moves:
            key = move.log.topic, move.log.partition
            replica = self._hosted.replicas.get(key)
            if move.is_offline:
                self._abandon(move, "a data directory is offline")
            elif replica is None or replica.log is not move.log:
                next_at = min(next_at, now + WAIT)  # the metadata has not arrived yet
            else:
                try:
                    pause = self._step(move, replica, STEP_BYTES // len(moves), now)
                except KafkaError as error:
                    self._abandon(move, error)
                else:
                    next_at = min(next_at, now + pause)
        return next_at

    def _step(self, move: LogMove, replica: Replica, max_bytes: int, now: float) -> float:
        """Runs one step. Returns the seconds until the next one."""
        is_complete = move.step(max_bytes)
        if not is_complete:
            return PAUSE
        if not move.is_flushed() or not self._assignments.is_stored(replica, move.directory, now):
            return WAIT
        move.finish()
        self._assignments.moved(replica)
        logger.info("Moved the log of %s-%d to %s", *replica.key, move.path)
        return FOREVER

    def _abandon(self, move: LogMove, why: object) -> None:
        logger.warning(
            "Stopped moving the log of %s-%d to %s: %s", move.log.topic, move.log.partition, move.path, why
        )
        self._logs.abandon(move)
