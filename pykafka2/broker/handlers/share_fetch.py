"""ShareFetch and ShareAcknowledge: members of share groups acquire records, and acknowledge them (KIP-932).

A ShareFetch can carry acknowledgements; both parts run at the same time, and the response waits for both. In
a share session the response has only partitions with something to report. The share partitions are in
share/, which is imported with the first request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from pykafka2.broker.handlers.api import api
from pykafka2.broker.handlers.metadata import leader_endpoints, leader_hint
from pykafka2.broker.handlers.share_requests import (
    FINAL_EPOCH,
    FIRST_VERSION_WITH_RENEW,
    Errors,
    Place,
    ShareRequest,
    Topics,
    acknowledge,
    batches_in,
    check_member,
    check_share,
)
from pykafka2.broker.handlers.throttling import client_of, handling_time, mute
from pykafka2.broker.server.responses import Refusal
from pykafka2.errors import (
    BrokerError,
    InvalidRequest,
    InvalidShareSessionEpoch,
    ShareSessionLimitReached,
    UnknownServerError,
)
from pykafka2.network.transport import Buffer
from pykafka2.protocol.messages.share_fetch import (
    AcquiredRecords,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeResponseLeaderIdAndEpoch,
    ShareAcknowledgeResponseNodeEndpoint,
    ShareAcknowledgeResponsePartitionData,
    ShareAcknowledgeTopicResponse,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchResponseLeaderIdAndEpoch,
    ShareFetchResponseNodeEndpoint,
    ShareFetchResponsePartitionData,
)
from pykafka2.protocol.primitives import FramePart

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import Origin, RequestContext
    from pykafka2.broker.share.fetching import ShareFetchResult
    from pykafka2.broker.share.sessions import ShareSession

BATCH_OPTIMIZED, RECORD_LIMIT = 0, 1
"""Acquire modes (KIP-1206)."""
LENGTH_BYTES: Final = 4

SILENT: Final = Refusal(silent=BrokerError)

T = TypeVar("T")


@api(ShareAcknowledgeRequest, 1, 2, access=check_share, refusal=SILENT)
def handle_share_acknowledge(
    services: Services, context: RequestContext, request: ShareAcknowledgeRequest, now: float
) -> None:
    shares = check_member(services, request)
    key = (str(request.group_id), str(request.member_id))
    shares.sessions.for_acknowledge(key, request.share_session_epoch)

    def done(errors: Errors) -> None:
        if request.share_session_epoch == FINAL_EPOCH:
            shares.release_member(*key, services.clock.monotonic())
        if not context.is_complete:
            services.respond_with(context, lambda: _acknowledged(services, context, request, errors))

    acknowledge(services, context, request, done, now)


def _acknowledged(
    services: Services, context: RequestContext, request: ShareAcknowledgeRequest, errors: Errors
) -> ShareAcknowledgeResponse:
    leaders: list[int] = []
    partitions = {
        place: ShareAcknowledgeResponsePartitionData(
            partition_index=place[1],
            error_code=0 if error is None else error.code or 0,
            error_message=_message(error),
            current_leader=_current_leader(
                services, place, error, leaders, ShareAcknowledgeResponseLeaderIdAndEpoch
            ),
        )
        for place, error in errors.items()
    }
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=_lock_ms(services, request),
        responses=_by_topic(partitions, ShareAcknowledgeTopicResponse),
        node_endpoints=leader_endpoints(services, context, leaders, ShareAcknowledgeResponseNodeEndpoint),
    )


# ---------------------------------------------------------------------- fetching


class _Fetch:
    """One ShareFetch on its way: what it waits for, and its response."""

    def __init__(self, services: Services, context: RequestContext, request: ShareFetchRequest) -> None:
        self._services = services
        self._context = context
        self._request = request
        self._shares = services.shares
        self._key = (str(request.group_id), str(request.member_id))
        self._errors: Errors = {}
        self._session: ShareSession | None = None
        self._results: list[ShareFetchResult] | None = None
        self._acknowledged: Errors | None = None

    @property
    def _is_initial(self) -> bool:
        return self._request.share_session_epoch == 0

    def start(self, now: float) -> None:
        """Open or continue the session, acknowledge, and fetch. Raise a `BrokerError` without effects."""
        request, context = self._request, self._context
        # Not by batches_in(), which has the last entry of a partition that is named twice.
        acknowledges = any(
            partition.acknowledgement_batches for topic in request.topics for partition in topic.partitions
        )
        self._session = self._shares.sessions.for_fetch(
            self._key,
            request.share_session_epoch,
            context.origin,
            batches_in(request),
            [
                (topic.topic_id, partition)
                for topic in request.forgotten_topics_data
                for partition in topic.partitions
            ],
            acknowledges=acknowledges,
        )
        context.origin.when_closed(partial(_disconnected, self._services, context.origin))
        if acknowledges:
            acknowledge(self._services, context, request, self._on_acknowledged, now)
        else:
            self._acknowledged = {}
        self._fetch(now)
        if context.origin.is_closed:
            # It can have closed before `when_closed`, and then nothing else ends the wait and the session.
            if context.abandon is not None:
                context.abandon(now)
            _disconnected(self._services, context.origin, now)

    def _fetch(self, now: float) -> None:
        request, session = self._request, self._session
        if session is None or (self._context.version >= FIRST_VERSION_WITH_RENEW and request.is_renew_ack):
            self._on_fetched([])
            return
        from pykafka2.broker.share.fetching import rotated

        topics = Topics(self._services, self._context)
        keys = topics.divide(self._key[0], session.partitions, self._errors)
        waiting = self._shares.fetch(
            self._params(),
            rotated(list(keys.values()), request.share_session_epoch),
            self._on_fetched,
            now,
        )
        if waiting is not None and not self._context.is_complete:
            self._context.abandon = lambda at: self._shares.fetches.discard(waiting)

    def _params(self) -> Any:
        from pykafka2.broker.share.acquisition import AcquireLimits
        from pykafka2.broker.share.fetching import ShareFetchParams

        request, services = self._request, self._services
        max_bytes = min(request.max_bytes, services.max_fetch_bytes)
        if services.quotas.is_active:
            most = services.quotas.max_fetch_bytes(*client_of(self._context))
            max_bytes = max_bytes if most is None else min(max_bytes, most)
        if request.share_acquire_mode not in (BATCH_OPTIMIZED, RECORD_LIMIT):
            raise UnknownServerError
        return ShareFetchParams(
            *self._key,
            request.max_wait_ms / 1000.0,
            min(request.min_bytes, max_bytes),
            max_bytes,
            AcquireLimits(
                request.max_records, request.batch_size, request.share_acquire_mode == RECORD_LIMIT
            ),
            self._shares.options.of(self._key[0]).read_committed,
        )

    def _on_fetched(self, results: list[ShareFetchResult]) -> None:
        self._results = results
        self._end_if_done()

    def _on_acknowledged(self, errors: Errors) -> None:
        self._acknowledged = errors
        self._end_if_done()

    def _end_if_done(self) -> None:
        if self._results is None or self._acknowledged is None:
            return
        now = self._services.clock.monotonic()
        if not self._context.is_complete:
            self._services.respond_with(self._context, lambda: self._response(now))
        if self._request.share_session_epoch == FINAL_EPOCH:
            self._shares.release_member(*self._key, now)

    # ------------------------------------------------------------------ the response

    def _response(self, now: float) -> ShareFetchResponse:
        from pykafka2.broker.share.sessions import next_epoch

        session, request = self._session, self._request
        if (
            session is not None
            and not self._is_initial
            and session.epoch != next_epoch(request.share_session_epoch)
        ):
            raise InvalidShareSessionEpoch
        leaders: list[int] = []
        partitions = self._partitions(leaders)
        throttle_ms = self._throttle_ms(partitions, leaders, now)
        if throttle_ms:
            partitions = {}
        elif session is not None and not self._is_initial:
            partitions = {
                place: data
                for place, data in partitions.items()
                if session.must_report(
                    place, has_records=bool(data.acquired_records), has_failed=bool(data.error_code)
                )
            }
        for place, error in (self._acknowledged or {}).items():
            data = partitions.setdefault(place, _data(place[1]))
            data.acknowledge_error_code = 0 if error is None else error.code or 0
            data.acknowledge_error_message = _message(error)
        response = self._made(partitions, leaders)
        if throttle_ms:
            mute(self._context, response, throttle_ms)
        return response

    def _partitions(self, leaders: list[int]) -> dict[Place, ShareFetchResponsePartitionData]:
        """Return the data of all partitions that were fetched."""
        result = {}
        for place, error in self._errors.items():
            result[place] = self._refused(place, error, leaders)
        for one in self._results or ():
            place = (one.key.topic_id, one.key.partition)
            if one.error is not None:
                result[place] = self._refused(place, one.error, leaders)
                continue
            result[place] = data = _data(place[1])
            if one.acquired:
                data.records = cast(Buffer, _records(one))
                data.acquired_records = [
                    AcquiredRecords(
                        first_offset=acquired.first_offset,
                        last_offset=acquired.last_offset,
                        delivery_count=acquired.delivery_count,
                    )
                    for acquired in one.acquired
                ]
        return result

    def _refused(
        self, place: Place, error: BrokerError | None, leaders: list[int]
    ) -> ShareFetchResponsePartitionData:
        data = _data(place[1])
        data.error_code = 0 if error is None else error.code or 0
        data.current_leader = _current_leader(
            self._services, place, error, leaders, ShareFetchResponseLeaderIdAndEpoch
        )
        return data

    def _made(
        self, partitions: Mapping[Place, ShareFetchResponsePartitionData], leaders: list[int]
    ) -> ShareFetchResponse:
        return ShareFetchResponse(
            acquisition_lock_timeout_ms=_lock_ms(self._services, self._request),
            responses=_by_topic(partitions, ShareFetchableTopicResponse),
            node_endpoints=leader_endpoints(
                self._services, self._context, leaders, ShareFetchResponseNodeEndpoint
            ),
        )

    def _throttle_ms(
        self, partitions: Mapping[Place, ShareFetchResponsePartitionData], leaders: list[int], now: float
    ) -> int:
        quotas = self._services.quotas
        if not quotas.is_active:
            return 0

        def size_bytes() -> int:
            parts: list[FramePart] = []
            self._made(partitions, leaders).encode_into(self._context.version, parts)
            return LENGTH_BYTES + sum(map(len, parts))

        return quotas.fetched(*client_of(self._context), size_bytes, handling_time(self._context, now), now)


# ---------------------------------------------------------------------- responses


def _current_leader(
    services: Services, place: Place, error: BrokerError | None, leaders: list[int], kind: Callable[..., T]
) -> T:
    """Return the current leader as this kind, and add it to `leaders`, if it explains an error."""
    name = services.image.topic_names.get(place[0])
    leader = None if name is None else leader_hint(services, (name, place[1]), error)
    if leader is None:
        return kind()
    leaders.append(leader.leader)
    return kind(leader_id=leader.leader, leader_epoch=leader.leader_epoch)


def _by_topic(partitions: Mapping[Place, Any], kind: Callable[..., T]) -> list[T]:
    """Return the entries of partitions in entries of their topics."""
    topics: dict[bytes, list[Any]] = {}
    for (topic_id, _), data in partitions.items():
        topics.setdefault(topic_id, []).append(data)
    return [kind(topic_id=topic_id, partitions=some) for topic_id, some in topics.items()]


def _lock_ms(services: Services, request: ShareRequest) -> int:
    return round(services.shares.options.of(str(request.group_id)).record_lock * 1000)


def _message(error: BrokerError | None) -> str | None:
    """Return the message of a share partition's error; those of the handler have none, as in Kafka."""
    return str(error) if error is not None and error.args else None


def _data(partition: int) -> ShareFetchResponsePartitionData:
    return ShareFetchResponsePartitionData(
        partition_index=partition,
        acknowledge_error_code=0,
        current_leader=ShareFetchResponseLeaderIdAndEpoch(),
        records=b"",
        acquired_records=[],
    )


def _records(result: ShareFetchResult) -> Any:
    from pykafka2.broker.log.partition_log import ReadResult

    return ReadResult(list(result.batches)).records()


def _disconnected(services: Services, origin: Origin, now: float) -> None:
    """Release what the member of a closed connection holds; the broker may have stopped meanwhile."""
    with services.node.lock:
        if services.node.is_running:
            services.shares.disconnected(origin, now)


@api(ShareFetchRequest, 1, 2, access=check_share, refusal=SILENT)
def handle_share_fetch(
    services: Services, context: RequestContext, request: ShareFetchRequest, now: float
) -> None:
    check_member(services, request)
    if context.version >= FIRST_VERSION_WITH_RENEW and request.is_renew_ack:
        _check_renew(request)
    try:
        _Fetch(services, context, request).start(now)
    except ShareSessionLimitReached:
        # The client retries at once, so that the response waits as long as one without records.
        refuse = services.responses.refuse
        code = ShareSessionLimitReached.code or 0
        timer = services.node.wheel.add(now + request.max_wait_ms / 1000.0, lambda at: refuse(context, code))
        context.abandon = lambda at: services.node.wheel.cancel(timer)


def _check_renew(request: ShareFetchRequest) -> None:
    """Raise `InvalidRequest` if a fetch that renews locks asks for records, too."""
    limits = {
        "maxBytes": request.max_bytes,
        "minBytes": request.min_bytes,
        "maxRecords": request.max_records,
        "maxWaitMs": request.max_wait_ms,
    }
    wrong = "".join(f"{name} must be set to 0, " for name, value in limits.items() if value)
    if wrong:
        raise InvalidRequest(f"{wrong}if isRenewAck is true.")
