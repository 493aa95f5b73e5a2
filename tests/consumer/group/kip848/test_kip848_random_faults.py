"""Groups of KIP-848 in a storm from a seed, as classic ones: members of both protocols in some of them.

All the time no partition has two owners, and offsets within an ownership follow one another.  When it is over
every partition is owned again, every record has been read, and what was committed was handed over.
"""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2.errors import FencedMemberEpoch, NotCoordinator, StaleMemberEpoch, UnknownMemberId
from pykafka2.protocol.messages.committed_offsets import OffsetCommitRequest, OffsetFetchRequest
from pykafka2.testing import Simulation
from tests.consumer.group.kip848.groups import BEATS, consumer_group
from tests.consumer.group.life import Group
from tests.consumer.group.test_group_random_faults import CONFIG, OPTIONS, Storm
from tests.gate import rest_in_long

pytestmark = pytest.mark.slow


class ConsumerStorm(Storm):
    """Faults of the seed for a group whose coordinator assigns."""

    requests = (BEATS, BEATS, OffsetCommitRequest, OffsetFetchRequest)
    errors = (NotCoordinator, UnknownMemberId, FencedMemberEpoch, StaleMemberEpoch)

    def new_group(self, simulation: Simulation, topics: dict[str, int]) -> Group:
        assignor: Any = self.random.choice([None, "uniform", "range"])
        config = {**CONFIG, "group.consumer.heartbeat.interval.ms": self.random.choice([100, 500, 1000])}
        return consumer_group(
            simulation, topics, brokers=3, config=config, group_remote_assignor=assignor, **OPTIONS
        )

    def fail_requests(self) -> None:
        """Heartbeats do not get STALE_MEMBER_EPOCH, nor commits FENCED_MEMBER_EPOCH."""
        request = self.random.choice(self.requests[:-1])
        errors = self.errors[:3] if request is BEATS else (NotCoordinator, StaleMemberEpoch)
        self.group.cluster.controls.fail_next(
            request, self.random.choice(errors), times=self.random.randint(1, 3)
        )


def ride_out(seed: int) -> None:
    with Simulation(seed) as simulation:
        storm = ConsumerStorm(simulation, seed)
        try:
            storm.blow()
            storm.calm()
            storm.check_commits()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}\n" + "\n".join(storm.happened)) from error


@pytest.mark.gate
@pytest.mark.parametrize("seed", rest_in_long(range(6), in_gate=2))
def test_a_group_rides_out_a_storm(seed: int) -> None:
    ride_out(seed)
