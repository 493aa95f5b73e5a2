"""Clients are kept for a process and its options, and are no child's after a fork."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from spark_connector import connections


class Client:
    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    connections.close_all()


def test_one_for_each_kind_and_options() -> None:
    first = connections.kept("a", {"x": "1", "y": "2"}, Client)
    assert connections.kept("a", {"y": "2", "x": "1"}, Client) is first
    assert connections.kept("b", {"x": "1", "y": "2"}, Client) is not first
    assert connections.kept("a", {"x": "1"}, Client) is not first


def test_the_one_used_the_longest_ago_makes_room() -> None:
    first = connections.kept("a", {"x": "0"}, Client)
    second = connections.kept("a", {"x": "1"}, Client)
    for number in range(2, connections.MOST_KEPT):
        connections.kept("a", {"x": str(number)}, Client)
    assert connections.kept("a", {"x": "0"}, Client) is first
    connections.kept("a", {"x": "more"}, Client)
    assert second.is_closed
    assert not first.is_closed


def test_what_other_threads_use_makes_no_room_until_they_have_ended() -> None:
    """Queries in foreachBatch share the user's process, each in a thread of its own."""

    def make(of: str) -> list[Client]:
        numbers = range(connections.MOST_KEPT)
        return [connections.kept("a", {of: str(number)}, Client) for number in numbers]

    with ThreadPoolExecutor(1) as other:
        theirs = other.submit(make, "theirs").result()
        mine = make("mine")
        assert not any(one.is_closed for one in (*theirs, *mine))
        connections.kept("a", {"more": ""}, Client)
        assert [one.is_closed for one in mine] == [True, *[False] * (connections.MOST_KEPT - 1)]
    connections.kept("a", {"even more": ""}, Client)
    assert all(one.is_closed for one in theirs)


def test_one_that_is_dropped_is_made_anew() -> None:
    first = connections.kept("a", {}, Client)
    connections.drop(first)
    assert first.is_closed
    assert connections.kept("a", {}, Client) is not first


@pytest.mark.slow
def test_a_child_makes_its_own_and_closes_none_of_its_parents() -> None:
    first = connections.kept("a", {}, Client)
    child = os.fork()
    if child == 0:  # what fails here must not go on with pytest's work
        mine = connections.kept("a", {}, Client)
        connections.close_all()
        os._exit(0 if mine is not first and mine.is_closed and not first.is_closed else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert connections.kept("a", {}, Client) is first


def test_a_fork_while_another_thread_looks_does_not_stop_the_child() -> None:
    with connections._lock:
        before = connections._lock
    connections._renew_lock()
    assert connections._lock is not before
