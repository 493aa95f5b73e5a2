"""A consumer's identity in its group, which the membership writes and commits read.

Passive values without a lock: each field is replaced by one assignment, so any thread can read them. The
membership writes `identity`, `obstacle` and `lost_because`. commit/commit_queue.py writes `rejection` on the
driver's thread, and the membership handles and clears it.
"""

from __future__ import annotations

import attrs

from pykafka2.errors import KafkaError


@attrs.define(frozen=True)
class GroupIdentity:
    """The identity in a commit; the defaults are those of a consumer that is not a member (`assign`)."""

    member_id: str = ""
    generation_id: int = -1
    group_instance_id: str | None = None
    membership: int = 0
    """The number of this consumer's membership in a KIP-848 group, starting at 1.  It is needed because
    `generation_id` is then the member epoch, which changes while the member keeps its partitions, and the
    member id outlives the membership."""


NOBODY = GroupIdentity()


@attrs.define(frozen=True)
class Rejection:
    """A commit that the coordinator rejected because the sender's membership or generation has ended.

    `error` is, for example, `UnknownMemberId`, `IllegalGeneration`, `FencedInstanceId` or
    `RebalanceInProgress`.
    """

    identity: GroupIdentity
    error: KafkaError


def _remember_membership(standing: GroupStanding, field: object, identity: GroupIdentity) -> GroupIdentity:
    if identity.generation_id >= 0:
        standing.last_membership = identity
    return identity


@attrs.define(eq=False)
class GroupStanding:
    """The state of a consumer in its group, for commits.  With `assign` it never changes."""

    group_id: str
    identity: GroupIdentity = attrs.field(default=NOBODY, on_setattr=_remember_membership)
    obstacle: KafkaError | None = None
    """The error that a commit raises now: `RebalanceInProgress` between revocation and assignment,
    `CommitFailed` after the membership was lost; None while commits can be sent."""
    lost_because: str = ""
    """Why the last membership ended, for example the measured gap between two polls and
    max_poll_interval_ms.  Empty if unknown."""
    rejection: Rejection | None = None
    last_membership: GroupIdentity = NOBODY
    """The last identity with a generation.  A transaction commits with it even after the membership has
    ended, so that the coordinator can fence offsets of a member that no longer owns the partitions."""
