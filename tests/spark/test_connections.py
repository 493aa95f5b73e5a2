"""Clients are kept for a process and its options, and are no child's after a fork."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from spark_connector import connections
from spark_connector.sink import clients
from tests.forks import in_child


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


def test_clients_of_live_threads_are_not_closed_to_make_room() -> None:
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


def test_slow_creation_of_a_client_blocks_only_its_own_waiters() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slowly() -> Client:
        begun.set()
        assert go_on.wait(10)
        return Client()

    with ThreadPoolExecutor(2) as others:
        making = others.submit(connections.kept, "a", {}, slowly)
        assert begun.wait(10)
        waiting = others.submit(connections.kept, "a", {}, Client)
        other = connections.kept("b", {}, Client)
        assert connections.found("b", {}) is other
        assert not waiting.done()
        go_on.set()
        assert waiting.result(10) is making.result(10)


def test_waiter_for_a_failed_client_creates_it() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def fail() -> Client:
        begun.set()
        assert go_on.wait(10)
        raise OSError("no broker")

    with ThreadPoolExecutor(2) as others:
        failing = others.submit(connections.kept, "a", {}, fail)
        assert begun.wait(10)
        waiting = others.submit(connections.kept, "a", {}, Client)
        go_on.set()
        assert isinstance(waiting.result(10), Client)
        with pytest.raises(OSError, match="no broker"):
            failing.result(10)


def test_slow_close_of_a_client_blocks_no_other() -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Slow(Client):
        def close(self) -> None:
            begun.set()
            assert go_on.wait(10)
            super().close()

    connections.kept("a", {}, Slow)
    with ThreadPoolExecutor(1) as other:
        closing = other.submit(connections.close_all)
        assert begun.wait(10)
        assert isinstance(connections.kept("b", {}, Client), Client)
        assert not closing.done()
        go_on.set()


def test_dropped_client_is_created_again() -> None:
    first = connections.kept("a", {}, Client)
    connections.drop(first)
    assert first.is_closed
    assert connections.kept("a", {}, Client) is not first


@pytest.mark.slow
def test_a_child_makes_its_own_and_closes_none_of_its_parents() -> None:
    first = connections.kept("a", {}, Client)

    def has_its_own() -> bool:
        mine = connections.kept("a", {}, Client)
        connections.close_all()
        return mine is not first and mine.is_closed and not first.is_closed

    assert in_child(has_its_own)
    assert connections.kept("a", {}, Client) is first


@pytest.mark.slow
def test_fork_during_client_creation_does_not_block_the_child() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slowly() -> Client:
        begun.set()
        assert go_on.wait(10)
        return Client()

    with ThreadPoolExecutor(1) as other:
        making = other.submit(connections.kept, "a", {}, slowly)
        assert begun.wait(10)

        def blocks_nowhere() -> bool:
            connections.kept("a", {}, Client)
            with clients._offset_lookup:
                return True

        with connections._lock, clients._offset_lookup:
            assert in_child(blocks_nowhere)
        go_on.set()
        making.result(10)
