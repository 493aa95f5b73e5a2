"""The requests ShareFetch and ShareAcknowledge: their members, topics and acknowledgements (KIP-932).

The share partitions are in share/, which is imported with the first request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pykafka2.broker.handlers.authorization import Checked, Verdict, code_of
from pykafka2.errors import (
    BrokerError,
    InvalidRequest,
    TopicAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from pykafka2.protocol.acl_terms import Operation, ResourceType
from pykafka2.protocol.messages.share_fetch import ShareAcknowledgeRequest, ShareFetchRequest

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.security.authorizer import Access
    from pykafka2.broker.server.request_context import RequestContext
    from pykafka2.broker.share.manager import SharePartitionManager
    from pykafka2.broker.share.share_partition import Acknowledgement
    from pykafka2.broker.share.surroundings import SharePartitionKey

FIRST_VERSION_WITH_RENEW: Final = 2
MAX_MEMBER_ID: Final = 36
FINAL_EPOCH: Final = -1
REJECT, RENEW = 3, 4
"""Acknowledgement types; those before them are gap, accept and release."""

Place = tuple[bytes, int]
"""Topic id and partition."""

Errors = dict[Place, BrokerError | None]

ShareRequest = ShareFetchRequest | ShareAcknowledgeRequest


def check_share(checked: Checked) -> Verdict:
    """Check READ on the group. The handlers check the topics, because share sessions do not name them."""
    group_id = checked.request.group_id
    if group_id is None or checked.access.may(Operation.READ, ResourceType.GROUP, group_id):
        return None
    return code_of(ResourceType.GROUP)


class Topics:
    """The topics of a request, as its sender can see them."""

    def __init__(self, services: Services, context: RequestContext) -> None:
        self._image = services.image
        self._access: Access | None = services.access_of(context)

    def check(self, group_id: str, place: Place) -> SharePartitionKey:
        """Return the key of a share partition. Raise the error that the sender gets."""
        from pykafka2.broker.share.surroundings import SharePartitionKey

        topic_id, partition = place
        topic = self._image.topic_names.get(topic_id)
        if topic is None:
            raise UnknownTopicId
        if self._access is not None and not self._access.may(Operation.READ, ResourceType.TOPIC, topic):
            raise TopicAuthorizationFailed
        if self._image.partition(topic, partition) is None:
            raise UnknownTopicOrPartition
        return SharePartitionKey(group_id, topic_id, topic, partition)

    def divide(
        self, group_id: str, places: Iterable[Place], errors: Errors
    ) -> dict[Place, SharePartitionKey]:
        """Return the keys of share partitions that the sender can use; add the errors of the others."""
        keys = {}
        for place in places:
            try:
                keys[place] = self.check(group_id, place)
            except BrokerError as error:
                errors[place] = error
        return keys


def check_member(services: Services, request: ShareRequest) -> SharePartitionManager:
    """Return the share partitions of this broker. Raise if the request names no member of a group."""
    shares = services.shares
    if not shares.options.are_groups_enabled:
        raise UnsupportedVersion
    if request.group_id is None:
        raise InvalidRequest("Invalid group id in the request.")
    if not request.member_id or len(request.member_id) > MAX_MEMBER_ID:
        raise InvalidRequest("Invalid member id in the request.")
    return shares


def acknowledge(
    services: Services,
    context: RequestContext,
    request: ShareRequest,
    on_done: Callable[[Errors], object],
    now: float,
) -> None:
    """Apply the acknowledgements of a request; `on_done` gets the result of each partition."""
    errors: Errors = {}
    batches = batches_in(request)
    keys = Topics(services, context).divide(str(request.group_id), batches, errors)
    acknowledged: dict[SharePartitionKey, Sequence[Acknowledgement]] = {}
    for place, key in keys.items():
        errors[place] = None
        if not _are_valid(batches[place], context.version, is_renew=request.is_renew_ack):
            errors[place] = InvalidRequest()
        elif batches[place]:
            acknowledged[key] = _acknowledgements(batches[place])

    if not acknowledged:
        # As in Kafka, partitions without acknowledgements are only reported beside others.
        errors = {place: error for place, error in errors.items() if error is not None}

    def done(results: Mapping[SharePartitionKey, BrokerError | None]) -> None:
        on_done({**errors, **{(key.topic_id, key.partition): error for key, error in results.items()}})

    services.shares.acknowledge(str(request.member_id), acknowledged, done, now)


def batches_in(request: ShareRequest) -> dict[Place, Any]:
    """Return the acknowledgements of each partition of a request; as in Kafka, the last entry counts."""
    return {
        (topic.topic_id, partition.partition_index): partition.acknowledgement_batches
        for topic in request.topics
        for partition in topic.partitions
    }


def _are_valid(batches: Iterable[Any], version: int, *, is_renew: bool) -> bool:
    """Return whether the acknowledgements of a partition are in order, with legal types."""
    highest = RENEW if version >= FIRST_VERSION_WITH_RENEW else REJECT
    previous = -1
    for batch in batches:
        types = batch.acknowledge_types
        count = batch.last_offset - batch.first_offset + 1
        if (
            count < 1
            or batch.first_offset < previous
            or not types
            or (len(types) > 1 and len(types) != count)
            or not all(0 <= one <= highest for one in types)
            or (RENEW in types and not is_renew)
        ):
            return False
        previous = batch.last_offset
    return True


def _acknowledgements(batches: Iterable[Any]) -> list[Acknowledgement]:
    from pykafka2.broker.share.share_partition import Acknowledgement

    return [
        Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types) for batch in batches
    ]
