"""Work of the application inside poll() counts for max_poll_interval_ms, as in Java; waiting does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykafka2.errors import CommitFailed
from pykafka2.testing import Simulation
from tests.consumer.group.kip848.groups import consumer_group
from tests.consumer.group.life import Group

PROTOCOLS = pytest.mark.parametrize("new_group", [Group, consumer_group], ids=["classic", "consumer"])
pytestmark = pytest.mark.slow


@pytest.mark.gate
@PROTOCOLS
def test_blocking_deserializer_exceeds_max_poll_interval_and_commit_names_it(
    simulation: Simulation, caplog: pytest.LogCaptureFixture, new_group: Callable[..., Group]
) -> None:
    group = new_group(simulation, max_poll_interval_ms=5_000)

    def blocking(value: bytes) -> bytes:
        simulation.sleep(8)
        return value

    slow = group.member("a", value_deserializer=blocking, max_poll_records=1)
    group.settle()
    group.produce(6)
    slow.poll(1000)
    assert len(slow.read) == 1
    assert "poll() was blocked for 5.0 s by application code (a deserializer" in caplog.text
    with pytest.raises(
        CommitFailed, match=r"poll\(\) was blocked for .* longer than max_poll_interval_ms=5000"
    ):
        slow.consumer.commit()
    assert slow.owned, "the next poll calls the listener"
    slow.poll(0)
    assert slow.what("lost") == [[0, 1, 2, 3, 4, 5]]


@PROTOCOLS
def test_a_callback_of_a_commit_that_blocks_does_so_too(
    simulation: Simulation, caplog: pytest.LogCaptureFixture, new_group: Callable[..., Group]
) -> None:
    group = new_group(simulation, max_poll_interval_ms=5_000, enable_auto_commit=False)
    slow = group.member("a")
    group.settle()
    slow.consumer.commit_async({}, lambda offsets, error: simulation.sleep(8))
    simulation.run_for(1)
    slow.poll()
    assert "poll() was blocked for 5.0 s" in caplog.text
    slow.poll()
    assert slow.what("lost") == [[0, 1, 2, 3, 4, 5]]


@pytest.mark.gate
@PROTOCOLS
def test_waiting_for_records_is_not_the_applications_time(
    simulation: Simulation, new_group: Callable[..., Group]
) -> None:
    group = new_group(simulation, max_poll_interval_ms=5_000, enable_auto_commit=False)
    member = group.member("a")
    group.settle()
    simulation.run_for(4)
    member.poll(30_000)
    simulation.run_for(4)
    member.poll()
    assert member.what("lost") == []
