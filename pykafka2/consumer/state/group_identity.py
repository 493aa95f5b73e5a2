"""A consumer's identity in its group, which the membership writes and commits read.

Passive values without a lock: each field is replaced by one assignment, so any thread may read them.  The
membership writes `identity`, `obstacle` and `lost_because`; commit/commit_queue.py, on the driver's thread,
writes `rejection`, which the membership looks at and takes away.
"""

from __future__ import annotations

import attrs

from pykafka2.errors import KafkaError


@attrs.define(frozen=True)
class GroupIdentity:
    """The identity in a commit; the defaults are those of a consumer without membership (`assign`)."""

    member_id: str = ""
    generation_id: int = -1
    group_instance_id: str | None = None
    membership: int = 0
    """Which membership of this consumer, counted from 1, in a KIP-848 group: there `generation_id` is the
    member's epoch, which moves on while it owns its partitions, and the id outlives the membership."""


NOBODY = GroupIdentity()


@attrs.define(frozen=True)
class Rejection:
    """The coordinator has refused a commit because of who sent it: that identity is over, or about to be.

    `error` is `UnknownMemberId`, `IllegalGeneration`, `FencedInstanceId`, `RebalanceInProgress` and their
    like.
    """

    identity: GroupIdentity
    error: KafkaError


def _remember_membership(standing: GroupStanding, field: object, identity: GroupIdentity) -> GroupIdentity:
    if identity.generation_id >= 0:
        standing.last_membership = identity
    return identity


@attrs.define(eq=False)
class GroupStanding:
    """How a consumer stands with its group.  With `assign` it stays as it is made."""

    group_id: str
    identity: GroupIdentity = attrs.field(default=NOBODY, on_setattr=_remember_membership)
    obstacle: KafkaError | None = None
    """Why nothing can be committed now: `RebalanceInProgress` between revocation and assignment,
    `CommitFailed` after the membership was lost; None while commits may be sent."""
    lost_because: str = ""
    """Why a membership ended last, in words: the measured gap between two polls and max_poll_interval_ms,
    say.  Empty while that is not known."""
    rejection: Rejection | None = None
    last_membership: GroupIdentity = NOBODY
    """The last identity with which it was in a generation.  What was read then is of that membership, so a
    transaction must name it also when it is over: nobody's offsets would be taken from anybody."""
