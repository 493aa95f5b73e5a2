"""A consumer's identity in its group, which the membership writes and commits read.

Passive values without a lock: each field is replaced by one assignment, so any thread can read them. The
membership writes `identity`, `commit_error` and `lost_because`. commit/commit_queue.py writes `rejection` on
the driver's thread, and the membership handles and clears it.
"""

from __future__ import annotations

import attrs

from pykafka2.errors import KafkaError
from pykafka2.slotted import slotted


@attrs.define(frozen=True)
class GroupIdentity:
    """The member id and generation that a commit carries; the defaults are those of a consumer without a
    membership (`assign`)."""

    member_id: str = ""
    generation_id: int = -1
    group_instance_id: str | None = None
    membership: int = 0
    """Counts this consumer's memberships of a KIP-848 group, from 1.  Neither of the other ids identifies a
    membership: `generation_id` is the member epoch, which grows during it, and `member_id` stays after it."""


NOBODY = GroupIdentity()


@slotted(frozen=True)
class Rejection:
    """A commit that the coordinator rejected because the sender's membership or generation has ended.

    `error` is, for example, `UnknownMemberId`, `IllegalGeneration`, `FencedInstanceId` or
    `RebalanceInProgress`.
    """

    identity: GroupIdentity
    error: KafkaError


def _remember_membership(group_status: GroupStatus, field: object, identity: GroupIdentity) -> GroupIdentity:
    if identity.generation_id >= 0:
        group_status.last_membership = identity
    return identity


@attrs.define(eq=False)
class GroupStatus:
    """The state of a consumer in its group, for commits.  With `assign` it never changes."""

    group_id: str
    identity: GroupIdentity = attrs.field(default=NOBODY, on_setattr=_remember_membership)
    commit_error: KafkaError | None = None
    """The error that a commit raises now: `RebalanceInProgress` between revocation and assignment,
    `CommitFailed` after the membership was lost; None while commits can be sent."""
    lost_because: str = ""
    """Why the last membership ended, for example the measured gap between two polls and
    max_poll_interval_ms.  Empty if unknown."""
    rejection: Rejection | None = None
    last_membership: GroupIdentity = NOBODY
    """The last identity with a generation, kept after the membership has ended.  `group_metadata()` returns
    it, so that the coordinator rejects offsets of a transaction after other members got the partitions."""
