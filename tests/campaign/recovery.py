"""When a scenario's cluster has recovered, after the faults."""

from __future__ import annotations

from pykafka2.testing.simulation.problems import InvariantViolated
from pykafka2.testing.simulation.world import World

RECOVERY_SECONDS = 60.0


def wait_until_recovered(world: World, *, all_brokers_know: bool = False) -> None:
    """Until all replicas are in sync again, and, if `all_brokers_know`, each broker has the newest metadata.

    Raises `InvariantViolated` if that takes longer than a minute of virtual time.
    """

    def recovered() -> bool:
        if all_brokers_know:
            newest = world.cluster.controller.image.version
            if any(broker.image.version < newest for broker in world.cluster.brokers):
                return False
        states = [world.partition(*one) for one in world.partitions()]
        return all(state.leader >= 0 and len(state.isr) == len(state.replicas) for state in states)

    if not world.simulation.wait_until(recovered, RECOVERY_SECONDS):
        states = [world.partition(*one) for one in world.partitions()]
        raise InvariantViolated(f"liveness: the cluster did not recover: {states}")
