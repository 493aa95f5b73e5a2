"""Error responses of coordinators.

The APIs' declarations import this module, so it needs no messages. `append_error_code` maps a failed append
to the client's error code.
"""

from __future__ import annotations

from typing import Final

from pykafka2 import errors
from pykafka2.broker.server.responses import Refusal, ResponseT
from pykafka2.protocol.registry import ApiKey
from pykafka2.protocol.struct import Request

REFUSAL: Final = Refusal(silent=errors.BrokerError)
OFFSET_FETCH: Final = Refusal(blank={"committed_offset": -1, "metadata": ""})
WITH_MESSAGE: Final = Refusal()
_DEVIATIONS: Final = {
    ApiKey.OFFSET_FETCH: OFFSET_FETCH,
    ApiKey.JOIN_GROUP: Refusal(repeats=("member_id",)),
    ApiKey.INIT_PRODUCER_ID: Refusal(blank={"producer_epoch": -1}),
    ApiKey.ADD_PARTITIONS_TO_TXN: Refusal(top=False),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: WITH_MESSAGE,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: WITH_MESSAGE,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: WITH_MESSAGE,
    ApiKey.READ_SHARE_GROUP_STATE: WITH_MESSAGE,
    ApiKey.WRITE_SHARE_GROUP_STATE: WITH_MESSAGE,
    ApiKey.DELETE_SHARE_GROUP_STATE: WITH_MESSAGE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: WITH_MESSAGE,
}


def refusal(request: Request[ResponseT], version: int, code: int) -> ResponseT:
    """Return the response to a request with an error, without a message; 0 is no error."""
    return _DEVIATIONS.get(request.API_KEY, REFUSAL)(request, version, code)


def append_error_code(api_key: int, code: int) -> int:
    """Return the error code for a client whose records were not appended or not committed in time."""
    if code in _COORDINATOR_UNAVAILABLE:
        return errors.CoordinatorNotAvailable.code
    if code in _COORDINATOR_MOVED:
        return errors.NotCoordinator.code
    if code in _TOO_LARGE:
        is_commit = api_key in (ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT)
        return errors.InvalidCommitOffsetSize.code if is_commit else errors.UnknownServerError.code
    return code


_COORDINATOR_UNAVAILABLE: Final = frozenset(
    {
        errors.UnknownTopicOrPartition.code,
        errors.NotEnoughReplicas.code,
        errors.NotEnoughReplicasAfterAppend.code,
        errors.RequestTimedOut.code,
    }
)
_COORDINATOR_MOVED: Final = frozenset({errors.NotLeaderOrFollower.code, errors.KafkaStorageError.code})
_TOO_LARGE: Final = frozenset(
    {errors.MessageTooLarge.code, errors.RecordListTooLarge.code, errors.InvalidFetchSize.code}
)
