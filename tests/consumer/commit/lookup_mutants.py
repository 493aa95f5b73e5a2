"""Two ways in which the Java client's coordinator lookup got stuck, planted into ours.

In both, a failed lookup is kept as if it were in flight, so that no other lookup begins:

- KAFKA-13840: an asynchronous or automatic commit begins a lookup, and no code removes it when it fails.
  Blocking calls and the heartbeat's thread clear what they find; with `assign` there is neither.
- KAFKA-10793: the response arrives before the lookup is stored, so it is stored when it is over already,
  and no code clears it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka2.cluster.coordinators import Coordinators
from pykafka2.cluster.router import Router
from pykafka2.consumer.commit.commit_queue import Commit, CommitQueue
from pykafka2.driver.pollable import Send, ToCoordinator
from pykafka2.errors import KafkaError
from pykafka2.protocol.messages.committed_offsets import OffsetCommitRequest

Plant = Callable[[pytest.MonkeyPatch], None]


def kept_by_asynchronous_commits(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-13840, as in 2.6.2 to 3.1.0."""
    end, attempt, try_to_send = Coordinators._end, CommitQueue._attempt, Router._try
    kept: list[Any] = []
    of_blocking_commits: list[Send[Any]] = []

    def keep(self: Coordinators, to: ToCoordinator, node: Any, error: Any, now: float) -> None:
        end(self, to, node, error, now)
        if node is None:
            self._lookups[to].in_flight = True
            kept.append(self._lookups[to])

    def note(self: CommitQueue, commit: Commit) -> Send[Any]:
        send = attempt(self, commit)
        if commit.is_retried:
            of_blocking_commits.append(send)
        return send

    def clear(self: Router, one: Any, now: float) -> bool:
        to, is_commit = one.send.to, isinstance(one.send.request, OffsetCommitRequest)
        is_blocking = any(one.send is send for send in of_blocking_commits)
        lookup = self._coordinators._lookups.get(to)
        if any(lookup is each for each in kept) and (is_blocking or not is_commit):
            kept.remove(lookup)
            lookup.in_flight = False  # type: ignore[union-attr]
        return try_to_send(self, one, now)

    patch.setattr(Coordinators, "_end", keep)
    patch.setattr(CommitQueue, "_attempt", note)
    patch.setattr(Router, "_try", clear)


def noted_when_it_is_over(patch: pytest.MonkeyPatch) -> None:
    """KAFKA-10793: a disconnect is known before the lookup is noted."""
    on_failure = Coordinators._on_failure

    def note_too_late(
        self: Coordinators, to: ToCoordinator, was_batch: bool, error: KafkaError, now: float
    ) -> None:
        on_failure(self, to, was_batch, error, now)
        self._lookups[to].in_flight = True

    patch.setattr(Coordinators, "_on_failure", note_too_late)
