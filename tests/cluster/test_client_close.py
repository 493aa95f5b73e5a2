"""A client that is closed is closed, whatever came in between."""

from __future__ import annotations

import threading
import time

import pytest

from pykafka2.cluster.client import ClusterClient
from pykafka2.driver.driver import Driver
from pykafka2.errors import ClientClosed
from pykafka2.options import ClientOptions, OptionTable
from tests.driver.interleave import at_every_line, at_line

OPTIONS = OptionTable(ClientOptions).parse({"bootstrap_servers": "127.0.0.1:1"}, {})


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.parametrize("function", [ClusterClient.close, Driver.close])
def test_close_interrupted_by_ctrl_c_continues_when_called_again(function: object) -> None:
    def attempt(number: int) -> bool:
        client = ClusterClient(OPTIONS, name=f"closing-{number}")
        was_reached = False
        try:
            was_reached = at_line(function.__code__, number, interrupt, client.close)  # type: ignore[attr-defined]
        except KeyboardInterrupt:
            was_reached = True
        assert client.close()
        assert not [thread for thread in threading.enumerate() if thread.name == client.name]
        with pytest.raises(ClientClosed):
            client.wait_for_topic("orders", 1)
        return was_reached

    assert len(list(at_every_line(attempt))) > 5


def test_two_threads_that_close_at_once_find_it_closed() -> None:
    client = ClusterClient(OPTIONS, name="closing-twice")
    closed: list[bool] = []
    threads = [threading.Thread(target=lambda: closed.append(client.close())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert closed == [True] * 3
    assert client.close()


@pytest.mark.slow
def test_a_close_that_finds_the_loop_stuck_ends_at_its_timeout() -> None:
    client = ClusterClient(OPTIONS, name="closing-stuck")
    is_stuck, may_go_on = threading.Event(), threading.Event()

    def get_stuck(now: float) -> None:
        is_stuck.set()
        may_go_on.wait(30)

    client.driver.call_soon(get_stuck)
    is_stuck.wait(5)
    started = time.monotonic()
    assert not client.close(0.5)
    assert time.monotonic() - started < 10  # the loop is stuck for 30 s
    may_go_on.set()
    assert client.driver._task.stop(5)
