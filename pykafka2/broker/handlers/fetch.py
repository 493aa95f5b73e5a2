"""Fetch: reads from a replica, and waits in the purgatory if there is too little to read.

Consumers read below the high watermark, followers up to the leader's log end. A full fetch with session epoch
0 creates a session, whose later fetches name only changes (KIP-227).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.handlers.api import api
from pykafka2.broker.handlers.authorization import Checked, Verdict, code_of
from pykafka2.broker.handlers.metadata import leader_endpoints, leader_hint
from pykafka2.broker.handlers.throttling import client_of, handling_time, mute
from pykafka2.broker.log.leader_epochs import UNKNOWN_EPOCH
from pykafka2.broker.replication.fetch import (
    FINAL_EPOCH,
    FIRST_VERSION_WITH_SESSIONS,
    FUTURE_REPLICA,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchInfo,
    FetchParams,
    FetchPartitionData,
    is_session_error,
    next_epoch,
)
from pykafka2.broker.security.authorizer import Access
from pykafka2.broker.server.responses import Refusal
from pykafka2.errors import (
    BrokerError,
    FetchSessionIdNotFound,
    InvalidFetchSessionEpoch,
    TopicAuthorizationFailed,
    UnknownServerError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pykafka2.network.transport import Buffer
from pykafka2.protocol.acl_terms import Operation, ResourceType
from pykafka2.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from pykafka2.protocol.primitives import FramePart
from pykafka2.types import READ_COMMITTED, READ_UNCOMMITTED

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext


FIRST_VERSION_WITH_IDS = 13
FIRST_VERSION_WITH_REPLICA_STATE = 15
FIRST_VERSION_WITH_LEADERS = 16  # the field exists since 12, but for the quorum (KIP-951)
FIRST_VERSION_WITH_ENDPOINTS = 16
FIRST_VERSION_FOR_FOLLOWERS = 11  # since then a consumer can read from a follower (KIP-392)
LENGTH_BYTES = 4

ISOLATION_LEVELS = (READ_UNCOMMITTED, READ_COMMITTED)


def check_fetch(checked: Checked) -> Verdict:
    """Check CLUSTER_ACTION for a follower.

    `handle` checks what consumers can read, because fetch sessions continue without naming topics.
    """
    request = checked.request
    is_state = checked.version >= FIRST_VERSION_WITH_REPLICA_STATE
    replica_id = request.replica_state.replica_id if is_state else request.replica_id
    if replica_id < 0 or checked.access.may_on_cluster(Operation.CLUSTER_ACTION):
        return None
    return code_of(ResourceType.TOPIC)


IN_PARTITIONS: Final = Refusal(top=False, blank={"high_watermark": -1, "records": b""})


def refuse(request: FetchRequest, version: int, code: int) -> FetchResponse:
    """Return the error in the response itself, if it is the session's, or in each partition."""
    if is_session_error(code, version):
        return FetchResponse(error_code=code, responses=[])
    return IN_PARTITIONS(request, version, code)


@api(FetchRequest, 4, 18, access=check_fetch, refusal=refuse)
def handle(
    services: Services, context: RequestContext, request: FetchRequest, now: float
) -> FetchResponse | None:
    if request.isolation_level not in ISOLATION_LEVELS:
        # Kafka fails on the number, and returns this error everywhere.
        refused = refuse(request, context.version, UnknownServerError.code)
        refused.error_code = UnknownServerError.code
        return refused
    params = _params(services, context, request, now)

    def on_done(results: list[FetchPartitionData]) -> None:
        if not context.is_complete:
            done_at = services.clock.monotonic()
            services.respond_with(
                context, lambda: _within_quota(services, context, request, params, results, done_at)
            )

    found = services.replicas.reader.fetch(params, request.max_wait_ms / 1000.0, on_done, now)
    if isinstance(found, list):
        return _within_quota(services, context, request, params, found, services.clock.monotonic())
    context.abandon = lambda at: services.replicas.fetches.discard(found)
    return None


def _params(services: Services, context: RequestContext, request: FetchRequest, now: float) -> FetchParams:
    replica_id, replica_epoch = request.replica_id, -1
    if context.version >= FIRST_VERSION_WITH_REPLICA_STATE:
        replica_id = request.replica_state.replica_id
        replica_epoch = request.replica_state.replica_epoch
    is_consumer = replica_id < 0
    # applies to followers' fetches, too
    max_bytes = min(request.max_bytes, services.max_fetch_bytes)
    if is_consumer and services.quotas.is_active:
        most = services.quotas.max_fetch_bytes(*client_of(context))
        max_bytes = max_bytes if most is None else min(max_bytes, most)
    may_follow = is_consumer and context.version >= FIRST_VERSION_FOR_FOLLOWERS
    is_future = replica_id == FUTURE_REPLICA
    access = services.access_of(context) if is_consumer and services.gate is not None else None
    image = services.image
    params = FetchParams(
        replica_id,
        [info for topic in request.topics for info in _infos(image, context.version, topic, access)],
        min(request.min_bytes, max_bytes),
        max_bytes,
        read_committed=request.isolation_level == READ_COMMITTED and not is_future,
        may_follow=may_follow or is_future,
        replica_epoch=replica_epoch,
        rack_id=request.rack_id if may_follow else None,
    )
    if context.version >= FIRST_VERSION_WITH_SESSIONS:
        _use_session(services, context.version, request, params, access, now)
    return params


def _use_session(
    services: Services,
    version: int,
    request: FetchRequest,
    params: FetchParams,
    access: Access | None,
    now: float,
) -> None:
    """Let an incremental fetch use its session; a full one closes the session that it names."""
    sessions = services.replicas.sessions
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if request.session_id != NO_SESSION:
            sessions.close(request.session_id)
        return
    uses_ids = version >= FIRST_VERSION_WITH_IDS
    session = sessions.incremental(
        request.session_id,
        request.session_epoch,
        uses_topic_ids=uses_ids,
        infos=params.infos,
        forgotten=[
            (topic.topic_id if uses_ids else topic.topic, partition)
            for topic in request.forgotten_topics_data
            for partition in topic.partitions
        ],
        name_of=services.image.topic_names.get,
        now=now,
    )
    if access is not None:
        sessions.check_access(session, access.rights, lambda topic: _authorization_error(access, topic))
    params.infos = []
    if session.partitions:
        params.session = session


def _within_quota(
    services: Services,
    context: RequestContext,
    request: FetchRequest,
    params: FetchParams,
    results: list[FetchPartitionData],
    now: float,
) -> FetchResponse:
    """Return the response, or an empty one if it exceeds a quota of the client.

    The client then fetches the same again: a session is not created, and an existing one keeps its positions.
    """
    quotas = services.quotas
    if not quotas.is_active or params.replica_id >= 0:
        return _session_response(services, context, request, params, results, now)
    session = params.session
    sent = results if session is None else session.changed(results)
    throttle_ms = quotas.fetched(
        *client_of(context),
        lambda: _encoded_bytes(_response(services, context, sent, params), context.version),
        handling_time(context, now),
        now,
    )
    if not throttle_ms:
        return _session_response(services, context, request, params, results, now)
    response = _session_error(services, context, request, params) or FetchResponse(
        session_id=NO_SESSION if session is None else session.id, responses=[]
    )
    mute(context, response, throttle_ms)
    return response


def _encoded_bytes(response: FetchResponse, version: int) -> int:
    """Return the length of a response with its length bytes, as Kafka measures it."""
    parts: list[FramePart] = []
    response.encode_into(version, parts)
    return LENGTH_BYTES + sum(map(len, parts))


def _session_response(
    services: Services,
    context: RequestContext,
    request: FetchRequest,
    params: FetchParams,
    results: list[FetchPartitionData],
    now: float,
) -> FetchResponse:
    """Return the response: all results, or with a session only the changes."""
    version = context.version
    sessions = services.replicas.sessions
    session = params.session
    if session is None:
        response = _response(services, context, results, params)
        if version >= FIRST_VERSION_WITH_SESSIONS and request.session_epoch == INITIAL_EPOCH:
            opened = sessions.create(
                results,
                uses_topic_ids=version >= FIRST_VERSION_WITH_IDS,
                replica_id=params.replica_id,
                now=now,
            )
            if opened is not None:
                response.session_id = opened.id
                services.replicas.reader.join_session(params, opened)
        return response
    refused = _session_error(services, context, request, params)
    if refused is not None:
        return refused
    response = _response(services, context, session.record_responses(results), params)
    response.session_id = session.id
    return response


def _session_error(
    services: Services, context: RequestContext, request: FetchRequest, params: FetchParams
) -> FetchResponse | None:
    """Return an error if the session was closed or used by another fetch in between, else None."""
    session = params.session
    if session is None:
        return None
    if services.replicas.sessions.get(session.id) is not session:
        return refuse(request, context.version, FetchSessionIdNotFound.code or 0)
    if session.epoch != next_epoch(request.session_epoch):
        return refuse(request, context.version, InvalidFetchSessionEpoch.code or 0)
    return None


def _authorization_error(access: Access, topic: str) -> TopicAuthorizationFailed | None:
    """Return an error if the client is not authorized to read a topic, else None."""
    return None if access.may(Operation.READ, ResourceType.TOPIC, topic) else TopicAuthorizationFailed()


def _infos(image: ClusterImage, version: int, topic: FetchTopic, access: Access | None) -> list[FetchInfo]:
    name = topic.topic
    error: BrokerError | None = None
    if version >= FIRST_VERSION_WITH_IDS:
        known = image.topic_names.get(topic.topic_id)
        if known is None:
            name, error = topic.topic_id.hex(), UnknownTopicId()
        else:
            name = known
    if error is None and access is not None:
        error = _authorization_error(access, name)
    known_partitions = range(0)
    if error is None:
        topic_image = image.topics.get(name)
        known_partitions = range(0 if topic_image is None else len(topic_image.partitions))
    return [
        FetchInfo(
            name,
            topic.topic_id,
            partition.partition,
            partition.fetch_offset,
            partition.partition_max_bytes,
            max(UNKNOWN_EPOCH, partition.current_leader_epoch),  # any negative one means unknown
            partition.last_fetched_epoch,
            partition.log_start_offset,
            error or (None if partition.partition in known_partitions else UnknownTopicOrPartition()),
        )
        for partition in topic.partitions
    ]


def _response(
    services: Services, context: RequestContext, results: list[FetchPartitionData], params: FetchParams
) -> FetchResponse:
    version = context.version
    leaders: list[int] = []
    topics: dict[tuple[str, bytes], FetchableTopicResponse] = {}
    for result in results:
        info = result.info
        topic = topics.get((info.topic, info.topic_id))
        if topic is None:
            topic = topics[info.topic, info.topic_id] = FetchableTopicResponse(
                topic=info.topic, topic_id=info.topic_id, partitions=[]
            )
        topic.partitions.append(_partition(services, version, result, params, leaders))
    if not leaders or version < FIRST_VERSION_WITH_ENDPOINTS or params.is_from_follower:
        return FetchResponse(responses=list(topics.values()))
    nodes = leader_endpoints(services, context, leaders, NodeEndpoint)
    return FetchResponse(responses=list(topics.values()), node_endpoints=nodes)


def _partition(
    services: Services, version: int, result: FetchPartitionData, params: FetchParams, leaders: list[int]
) -> PartitionData:
    info = result.info
    data = PartitionData(
        partition_index=info.partition,
        high_watermark=result.high_watermark,
        last_stable_offset=result.last_stable_offset,
        log_start_offset=result.log_start_offset,
        aborted_transactions=_aborted(result, params),
        preferred_read_replica=result.preferred_read_replica,
        records=cast(Buffer, result.records),  # a file part is encoded as such (protocol/file_part.py)
    )
    if result.diverging is not None:
        end = result.diverging
        data.diverging_epoch = EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset)
    if result.error is not None:
        data.error_code = result.error.code or 0
        leader = leader_hint(services, info.key, result.error)
        if leader is not None and version >= FIRST_VERSION_WITH_LEADERS:
            data.current_leader = LeaderIdAndEpoch(leader_id=leader.leader, leader_epoch=leader.leader_epoch)
            leaders.append(leader.leader)
    return data


def _aborted(result: FetchPartitionData, params: FetchParams) -> list[AbortedTransaction] | None:
    """Return None unless requested (read_committed).

    Empty, as in Kafka, if there was nothing to read when the fetch arrived.
    """
    if result.error is None and result.aborted is None:
        return None
    is_unknown = isinstance(result.error, UnknownTopicOrPartition) and not params.has_waited
    if result.info.error is not None or is_unknown:
        return []
    if result.aborted is None:
        return None
    return [
        AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
        for aborted in result.aborted
    ]
