"""Share sessions: their epochs, what a response must report, and members that open one again."""

from __future__ import annotations

import pytest

from pykafka2.broker.faults.engine import DeadOrigin
from pykafka2.broker.security.principal import Caller
from pykafka2.broker.share.sessions import MAX_EPOCH, ShareSession, ShareSessions
from pykafka2.errors import InvalidShareSessionEpoch, ShareSessionLimitReached

KEY, OTHER = ("g", "m"), ("g", "n")
FIRST, SECOND = (b"t" * 16, 0), (b"t" * 16, 1)


def open_session(sessions: ShareSessions, key: tuple[str, str] = KEY) -> ShareSession:
    origin = DeadOrigin("peer", Caller())
    session = sessions.for_fetch(key, 0, origin, [FIRST, SECOND], [], acknowledges=False)
    assert session is not None
    return session


def test_epoch_after_the_highest_one_is_1() -> None:
    sessions = ShareSessions(2)
    open_session(sessions).epoch = MAX_EPOCH
    sessions.for_acknowledge(KEY, MAX_EPOCH)
    with pytest.raises(InvalidShareSessionEpoch):
        sessions.for_acknowledge(KEY, 2)
    sessions.for_acknowledge(KEY, 1)
    sessions.for_acknowledge(KEY, 2)


def test_error_of_a_partition_is_reported_until_it_has_passed() -> None:
    session = open_session(ShareSessions(1))

    def reports(**state: bool) -> bool:
        return session.must_report(FIRST, **{"has_records": False, "has_failed": False} | state)

    assert [reports(), reports(has_failed=True), reports(has_failed=True)] == [False, True, True]
    assert [reports(), reports(), reports(has_records=True)] == [True, False, True]
    assert list(session.partitions) == [SECOND, FIRST], "one with records moves behind the others"
    session.update([], [FIRST])
    assert reports(has_records=True)
    assert list(session.partitions) == [SECOND]


def test_member_that_opens_its_session_again_replaces_it() -> None:
    sessions = ShareSessions(1)
    first = open_session(sessions)
    second = open_session(sessions)
    assert (len(sessions), sessions.get(KEY)) == (1, second)
    with pytest.raises(ShareSessionLimitReached):
        open_session(sessions, OTHER)
    assert (sessions.opened_by(first.origin), sessions.opened_by(second.origin)) == ([], [second])
    assert list(sessions.disconnected(first.origin)) == ["g"]
    assert list(sessions.disconnected(first.origin)) == []
    assert sessions.get(KEY) is second
