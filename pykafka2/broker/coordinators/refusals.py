"""Error responses of coordinators: the same error in every field that can hold one.

Pure. groups/refusals.py and transactions/refusals.py have one function for each type of request; `refusal`
calls it. `append_error_code` maps a failed append to the client's error code.
"""

from __future__ import annotations

from typing import Any, Final

from pykafka2 import errors
from pykafka2.broker.coordinators.groups import refusals as groups
from pykafka2.broker.coordinators.transactions import refusals as transactions
from pykafka2.protocol.messages import committed_offsets as offsets
from pykafka2.protocol.messages import transaction
from pykafka2.protocol.struct import Request, Response

_REFUSERS: Final = groups.REFUSERS | transactions.REFUSERS


def refusal(request: Request[Any], version: int, code: int) -> Response:
    """Return the response to `request` in `version` with `code` in every error field."""
    return _REFUSERS[type(request)](request, version, code)


def append_error_code(request: Request[Any], code: int) -> int:
    """Return the error code for a client whose records were not appended or not committed in time."""
    if code in _COORDINATOR_UNAVAILABLE:
        return errors.CoordinatorNotAvailable.code
    if code in _COORDINATOR_MOVED:
        return errors.NotCoordinator.code
    if code in _TOO_LARGE:
        is_commit = isinstance(request, offsets.OffsetCommitRequest | transaction.TxnOffsetCommitRequest)
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
