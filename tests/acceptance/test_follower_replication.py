"""How a high watermark goes from 4 to 5, step by step.

Real followers, each of whose fetches is made when the story says so.
"""

from __future__ import annotations

import pytest

from pykafka2.broker.replication.fetch import FetchInfo, FetchParams
from pykafka2.records.batch import batches
from pykafka2.testing import KafkaCluster, Simulation
from tests.broker.support.leaders import append, ends, marks

KEY = ("t", 0)
# A fetch gives one batch and does not wait, so that each step moves a follower by one.
CONFIG = {"replica.fetch.max.bytes": 1, "replica.fetch.wait.max.ms": 0}


class Example:
    """Three brokers whose followers fetch only by `fetch`."""

    def __init__(self, simulation: Simulation, config: dict[str, object]) -> None:
        self.simulation = simulation
        self.cluster: KafkaCluster = simulation.cluster(brokers=3, topics={"t": 1}, config=config)
        self.cluster.controls.pause_followers()
        simulation.run_for(1)
        self.leader = self.cluster.partition(*KEY).leader
        self.one, self.two = (broker for broker in range(3) if broker != self.leader)

    def fetch(self, follower: int) -> None:
        """Let a follower make one fetch."""
        fetchers = self.cluster.broker(follower).fetchers
        with self.cluster.lock:
            fetchers.is_paused = False
            fetchers.run(self.cluster.runtime.clock.monotonic())
            fetchers.is_paused = True
        self.simulation.run_for(0.1)

    def end(self, broker: int) -> int:
        return ends(self.cluster, KEY)[broker]

    def mark(self, broker: int) -> int:
        return marks(self.cluster, KEY)[broker]

    @property
    def remote_ends(self) -> dict[int, int]:
        """The followers' log ends as the leader knows them."""
        replica = self.cluster.broker(self.leader).replicas.replicas[KEY]
        return {one.broker_id: one.log_end_offset for one in replica.followers.values()}

    def readable(self, broker: int) -> list[int]:
        """The offsets that a consumer gets there."""
        with self.cluster.lock:
            reader = self.cluster.broker(broker).replicas.reader
            read: list[int] = []
            while True:
                item = FetchInfo(KEY[0], bytes(16), KEY[1], len(read), 1 << 20)
                (result,) = reader.read(FetchParams(-1, [item], 1, 1 << 20, may_follow=True))
                found = [one.base_offset for one in batches(result.records)]
                if not found:
                    return read
                read += found


@pytest.fixture
def example(simulation: Simulation) -> Example:
    """Leader and follower two are at log end offset 5, follower one is two behind; both followers have
    fetched since.
    """
    made = Example(simulation, CONFIG)
    for number in range(5):
        append(made.cluster, KEY, b"%d" % number)
    for _ in range(4):
        made.fetch(made.one)
    for _ in range(6):
        made.fetch(made.two)
    return made


def test_high_watermark_advances_from_4_to_5_step_by_step(example: Example) -> None:
    x, leader, one, two = example, example.leader, example.one, example.two
    # Follower one's fourth fetch started at offset 3 and brought it the record there.
    assert (x.end(leader), x.end(two), x.end(one)) == (5, 5, 4)
    assert x.remote_ends == {one: 3, two: 5}
    assert x.mark(leader) == 3

    x.fetch(one)  # at 4
    assert x.remote_ends[one] == 4
    assert x.end(one) == 5
    assert x.mark(leader) == 4
    assert x.mark(one) == 3, "its answer was read before its request was counted"
    assert x.mark(two) < 4

    x.fetch(two)
    assert x.mark(two) == 4

    x.fetch(one)  # at 5: the leader's mark moves by this very request, whose answer still says 4
    assert x.remote_ends[one] == 5
    assert x.mark(leader) == 5
    assert x.mark(one) == 4
    assert x.mark(two) == 4, "it has not fetched since"

    x.fetch(two)
    assert x.mark(two) == 5
    x.fetch(one)
    assert marks(x.cluster, KEY) == ends(x.cluster, KEY) == [5, 5, 5]


def test_consumer_never_sees_above_the_high_watermark_of_its_broker(example: Example) -> None:
    x = example
    for follower in (x.one, x.two, x.one, x.two, x.one):
        for broker in range(3):
            assert x.readable(broker) == list(range(x.mark(broker)))
        x.fetch(follower)
    assert [x.readable(broker) for broker in range(3)] == [[0, 1, 2, 3, 4]] * 3


def test_replicas_are_alike_below_the_mark(example: Example) -> None:
    x = example
    x.fetch(x.one)
    logs = [
        [bytes(one.buffer) for one in x.cluster.log(*KEY, broker=broker).batches()] for broker in range(3)
    ]
    assert logs[0] == logs[1] == logs[2]
    assert len(logs[0]) == 5
