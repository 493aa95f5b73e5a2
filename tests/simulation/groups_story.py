"""Groups of both protocols, with and without faults; prints the trace hashes.  Run by test_groups.py.

What coordinators keep in dictionaries and look at by name has many entries here: members, topics, patterns,
groups in several partitions.
"""

from __future__ import annotations

import itertools
import logging
import sys

from pykafka2.broker.coordinators.internal_topics import partition_for
from pykafka2.protocol.messages import group_admin
from pykafka2.protocol.messages.consumer_group import ConsumerGroupDescribeRequest
from pykafka2.testing.simulation import Simulation
from tests.broker.support.bench import GROUP, PARTITION, TOPICS, ClusterBench, assigned
from tests.campaign.system_story import Shape, run_seed

MEMBERS = [f"member-{number}" for number in range(6)]


def tell(seed: int) -> str:
    """The hashes of everything that happened."""
    report = run_seed(seed, Shape(seconds=3.0, members=3))
    if report.error is not None:
        raise report.error
    return f"{report.trace_hash} {many_members(seed)}"


def many_members(seed: int) -> str:
    """Six members of the new protocol come, reconcile and go; classic ones beside them, offsets of both."""
    with Simulation(seed) as simulation:
        bench = ClusterBench(simulation, brokers=2, config={"group.initial.rebalance.delay.ms": 100})
        for number in range(8):
            bench.cluster.create_topic(f"more-{number}", 2)
        beat_all(bench, dict.fromkeys(MEMBERS, 0))
        classic, plain = neighbours(2)
        bench.group_id = classic
        offered = dict.fromkeys(("range", "sticky", "uniform", "roundrobin"), b"")
        for member in bench.stable(4, protocols=offered):
            bench.join(member, protocols=offered, rebalance=2.0)
        bench.advance(5.0)  # no member syncs in time
        for topic, partitions in TOPICS.items():
            for partition in range(partitions):
                bench.commit(partition, topic=topic, partition=partition, group_id=plain)
        names = [GROUP, classic, plain, "nobody"]
        bench.call(group_admin.DescribeGroupsRequest(groups=names), 6)
        bench.call(ConsumerGroupDescribeRequest(group_ids=names, include_authorized_operations=False), 1)
        bench.call(group_admin.ListGroupsRequest(states_filter=[], types_filter=[]), 5)
        bench.reload()
        bench.cluster.delete_topic("refunds")
        bench.cluster.create_topic("more-of-them", 3)
        bench.advance(60.0)  # sessions end
        return simulation.trace_hash


def neighbours(count: int) -> list[str]:
    """Names of groups in the partition of the bench's own."""
    names = (f"group-{number}" for number in itertools.count())
    return list(itertools.islice((name for name in names if partition_for(name, 50) == PARTITION[1]), count))


def beat_all(bench: ClusterBench, epochs: dict[str, int]) -> None:
    """Have all members beat until they own what they are given, twice; then some leave."""
    owned: dict[str, dict[bytes, list[int]]] = {}
    for turn in range(8):
        for number, member in enumerate(epochs):
            topics = [*TOPICS, *(f"more-{other}" for other in range(number))]
            answer = bench.beat(
                member,
                epochs[member],
                topics=topics if epochs[member] == 0 and number % 2 else None,
                regex="more-.*" if epochs[member] == 0 and not number % 2 else None,
                owned=owned.get(member, {}) if turn else None,
            )
            epochs[member] = answer.member_epoch
            target = assigned(answer)
            if target is not None:
                owned[member] = target
        bench.advance(1.0)
    for member in MEMBERS[::2]:
        bench.beat(member, -1)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    sys.stdout.write(tell(int(sys.argv[1])))
