"""Reads from the replicas of one broker; selects the replica that a consumer should read from (KIP-392).

A fetch with too little data waits in the purgatory (purgatory.py); one in a session reads only its dirty
partitions (fetch.py). Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NoReturn

from pykafka2.broker.base.image import ClusterImage, Key
from pykafka2.broker.log.leader_epochs import UNKNOWN_EPOCH
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.replication.fetch import (
    FUTURE_REPLICA,
    NO_TOPIC_ID,
    FetchInfo,
    FetchParams,
    FetchPartitionData,
    FetchSession,
)
from pykafka2.broker.replication.isr_manager import IsrManager
from pykafka2.broker.replication.purgatory import DelayedFetch, Purgatory, follower_key
from pykafka2.broker.replication.replica import HostedReplicas, Replica
from pykafka2.errors import (
    BrokerError,
    ConfigurationError,
    InconsistentTopicId,
    NotLeaderOrFollower,
    UnknownLeaderEpoch,
    UnknownServerError,
)

Select = Callable[[Replica, int, str, ClusterImage], int]
"""Arguments: the leader's replica, the requested offset, the consumer's rack, the image. Returns a broker
id, -1 for the leader.
"""

PACKAGE: Final = "org.apache.kafka.common.replica."
LEADER: Final = -1


def rack_aware(replica: Replica, offset: int, rack: str, image: ClusterImage) -> int:
    """Return the most advanced in-sync replica in the consumer's rack that has the offset."""
    if not rack:
        return LEADER

    def is_near(broker_id: int) -> bool:
        broker = image.brokers.get(broker_id)
        return broker is not None and not broker.is_fenced and broker.rack == rack

    if is_near(replica.broker_id):
        return LEADER
    near = [
        follower
        for follower in replica.followers.values()
        if follower.broker_id in replica.image.isr
        and follower.log_start_offset <= offset <= follower.log_end_offset
        and is_near(follower.broker_id)
    ]
    if not near:
        return LEADER
    return max(
        near, key=lambda follower: (follower.log_end_offset, follower.caught_up_at, -follower.broker_id)
    ).broker_id


SELECTORS: Final[dict[str, Select | None]] = {
    "": None,
    f"{PACKAGE}LeaderSelector": None,
    f"{PACKAGE}RackAwareReplicaSelector": rack_aware,
}


def selector(class_name: str) -> Select | None:
    """Return the selector for a class name; None if consumers always read from the leader."""
    try:
        return SELECTORS[class_name]
    except KeyError:
        known = ", ".join(name for name in SELECTORS if name)
        raise ConfigurationError(
            f"replica.selector.class={class_name!r} cannot be loaded; known are {known}"
        ) from None


class ReplicaReader:
    """Serves fetches from a broker's replicas. `selector_class` is replica.selector.class.

    `fetches` holds the waiting ones; `notify_sessions` marks this turn's moved partitions in the sessions.
    """

    def __init__(
        self,
        hosted: HostedReplicas,
        isrs: IsrManager,
        fetches: Purgatory[Key | FetchSession],
        notify_sessions: Callable[[], object],
        selector_class: str,
    ) -> None:
        self._hosted = hosted
        self._isrs = isrs
        self._fetches = fetches
        self._notify_sessions = notify_sessions
        self._select = selector(selector_class)

    def fetch(
        self,
        params: FetchParams,
        max_wait: float,
        on_done: Callable[[list[FetchPartitionData]], None],
        now: float,
    ) -> list[FetchPartitionData] | DelayedFetch:
        """Return the results, or wait until there is enough to read; `on_done` is then called with them."""
        self._notify_sessions()
        infos = params.current_partitions()
        is_ready = max_wait <= 0 or not (params.infos or params.session) or self.has_enough(params, infos)
        # A follower's response is read before its own fetch moves anything: it learns of the move one fetch
        # later.
        results = self.read(params, infos) if is_ready else []
        if params.replica_id >= 0:
            self._isrs.follower_fetched(params, now)
        if is_ready:
            return results
        # A session knows which of its partitions moved, so the session is watched instead of each partition.
        keys: Iterable[Key | FetchSession] = {info.key: None for info in params.infos}
        if params.session is not None:
            keys = [params.session]
        if params.is_from_follower:
            keys = [*keys, follower_key(params.replica_id)]
        params.has_waited = True
        operation = DelayedFetch(now + max_wait, self, params, on_done)
        self._fetches.try_complete_else_watch(operation, keys, now, was_tried=True)
        return operation

    def join_session(self, params: FetchParams, session: FetchSession) -> None:
        """Continue a follower in a session, which stands for partitions that later fetches do not name."""
        if not params.is_from_follower:
            return
        for info in params.infos:
            replica = self._hosted.replicas.get(info.key)
            follower = None if replica is None else replica.followers.get(params.replica_id)
            if follower is not None and follower.log_end_offset == info.offset:
                follower.in_session = session.partition_of(info)

    def read(self, params: FetchParams, infos: list[FetchInfo] | None = None) -> list[FetchPartitionData]:
        """Read every partition of a fetch within its limits. `infos` are its current partitions, if known."""
        results: list[FetchPartitionData] = []
        left = params.max_bytes
        min_one = True
        for info in params.current_partitions() if infos is None else infos:
            result = self._read_one(params, info, left, min_one)
            if len(result.records):
                min_one = False
                left = max(0, left - len(result.records))
            results.append(result)
        return results

    def _read_one(self, params: FetchParams, info: FetchInfo, left: int, min_one: bool) -> FetchPartitionData:
        try:
            replica, upper = self._readable(params, info)
            log = replica.log
            # so `upper` is the last stable offset
            is_stable = params.read_committed and params.replica_id < 0
            result = FetchPartitionData(
                info,
                None,
                log.high_watermark,
                upper if is_stable else log.last_stable_offset,
                log.log_start_offset,
            )
            if self._select is not None:
                result.preferred_read_replica = self.preferred_replica(params, info, replica)
                if result.preferred_read_replica >= 0:
                    return result
            if info.last_fetched_epoch != UNKNOWN_EPOCH:
                result.diverging = replica.divergence(info.last_fetched_epoch, info.offset)
            if result.diverging is None:
                limit = min(max(0, left), info.max_bytes) if params.max_bytes >= 0 else -1
                if limit < 0 and info.offset < upper:
                    raise UnknownServerError(f"a read of at most {limit} bytes")  # as in Kafka
                found = log.locate(info.offset, upper, limit, min_one=min_one)
                result.records = found.records()
                result.has_more = info.offset < upper
                if params.read_committed:
                    result.aborted = log.aborted_transactions(info.offset, found.end_offset(info.offset))
        except BrokerError as error:
            return FetchPartitionData(info, error)
        return result

    def has_enough(self, params: FetchParams, infos: Iterable[FetchInfo]) -> bool:
        """Return whether min_bytes can be read of these partitions, or the fetch must complete at once."""
        missing = params.min_bytes
        for info in infos:
            if missing <= 0:
                break
            size = self._readable_bytes(params, info)
            if size is None:
                return True
            missing -= size
        return missing <= 0

    def _readable_bytes(self, params: FetchParams, info: FetchInfo) -> int | None:
        """Return the number of readable bytes of a partition; None if the fetch must complete at once."""
        try:
            replica, upper = self._readable(params, info)
            if self._select is not None and self.preferred_replica(params, info, replica) >= 0:
                return None
            if (
                info.last_fetched_epoch != UNKNOWN_EPOCH
                and replica.divergence(info.last_fetched_epoch, info.offset) is not None
            ):
                return None
            log = replica.log
            if log.log_start_offset <= info.offset and info.offset >= upper:
                if params.min_bytes > 1:
                    note_segment(params, info, log)
                # Above the readable end there is nothing to wait for, as in Kafka.
                return 0 if info.offset == upper else None
            if params.min_bytes > 1 and note_segment(params, info, log) < log.segments.base_of(upper):
                return None  # the log was rolled after the fetch: the old segment does not grow
            if params.min_bytes <= 1 and log.log_start_offset <= info.offset:
                return 1
            return log.locate(info.offset, upper, info.max_bytes, min_one=True).size_bytes
        except BrokerError:
            return None

    def _readable(self, params: FetchParams, info: FetchInfo) -> tuple[Replica, int]:
        """Return the replica that serves a partition of a fetch, and the end of what it can read."""
        if info.error is not None:
            # a session keeps the error, and its traceback would grow with each fetch
            raise info.error.with_traceback(None)
        replica = self._hosted.replica_of((info.topic, info.partition))
        if info.topic_id != replica.log.topic_id and info.topic_id != NO_TOPIC_ID:
            raise InconsistentTopicId(f"{info.topic} has another id than the requested one")
        if info.current_leader_epoch != UNKNOWN_EPOCH:
            replica.check_epoch(info.current_leader_epoch)
        is_from_follower = params.replica_id >= 0
        if is_from_follower or not params.may_follow:
            replica.check_leader()
        if is_from_follower:
            if params.replica_id not in replica.followers:
                _refuse_follower(params.replica_id, info)
            if self._isrs.is_stale(params):
                raise NotLeaderOrFollower(
                    f"broker {params.replica_id} has registered again since it sent the fetch"
                )
            return replica, replica.log.log_end_offset
        if params.replica_id == FUTURE_REPLICA:
            return replica, replica.log.log_end_offset
        if params.read_committed:
            return replica, replica.log.last_stable_offset
        return replica, replica.log.high_watermark

    def preferred_replica(self, params: FetchParams, info: FetchInfo, replica: Replica) -> int:
        """Return the replica that the consumer should read from, -1 for this one (KIP-392)."""
        if self._select is None or params.rack_id is None or not replica.is_leader:
            return -1
        return self._select(replica, info.offset, params.rack_id, self._hosted.image)


def _refuse_follower(replica_id: int, info: FetchInfo) -> NoReturn:
    """Reject a broker that is not a replica.

    If it sends a leader epoch, it can become one soon and retries.
    """
    error = NotLeaderOrFollower if info.current_leader_epoch == UNKNOWN_EPOCH else UnknownLeaderEpoch
    raise error(f"broker {replica_id} is not a replica of {info.topic}-{info.partition}")


def note_segment(params: FetchParams, info: FetchInfo, log: PartitionLog) -> int:
    """Return the base offset of the segment that contained the fetch's offset when it arrived."""
    return params.first_segments.setdefault(info.key, log.segments.base_of(info.offset))
