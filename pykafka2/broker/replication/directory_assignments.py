"""Reports of the log directories of replicas to the controller (KIP-858). Kafka's AssignmentsManager.

A broker with several directories chooses one for each new replica, and the metadata must name it: only then
does the controller know which replicas are lost with a directory. One request is in flight at a time. Access
requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pykafka2.broker.base.image import UNASSIGNED, Key
from pykafka2.broker.base.timing_wheel import TimingWheel
from pykafka2.broker.log.storage import LogStorage
from pykafka2.broker.replication.hosted import HostedReplicas
from pykafka2.broker.replication.replica import Replica
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
        self._unsent: dict[Key, None] = {}
        self._targets: dict[Key, bytes] = {}  # the directories that replicas are moving to
        self._is_in_flight = False

    def check(self, replica: Replica) -> None:
        """Note a replica whose directory is not the one in its image, to be sent by `send`."""
        if self._difference(replica) is not None:
            self._unsent[replica.key] = None

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
        if self._is_in_flight or not self._unsent or own is None:
            return
        sent: dict[Ident, Key] = {}
        directories: dict[bytes, dict[bytes, list[int]]] = {}
        while self._unsent and len(sent) < MAX_REPLICAS:
            key, _ = self._unsent.popitem()
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
        self._send(request, ASSIGN_VERSION, lambda answer, at: self._on_answer(sent, answer, at), now)

    def _on_answer(self, sent: dict[Ident, Key], answer: AssignReplicasToDirsResponse, now: float) -> None:
        """Send what has gathered meanwhile, and later again what was rejected."""
        self._is_in_flight = False
        stored = {
            (topic.topic_id, partition.partition_index)
            for directory in answer.directories
            for topic in directory.topics
            for partition in topic.partitions
            if not partition.error_code
        }
        rejected = [key for ident, key in sent.items() if ident not in stored]
        self.send(now)
        if rejected:
            self._unsent.update(dict.fromkeys(rejected))
            self._wheel.add(now + RETRY_INTERVAL, self.send)
