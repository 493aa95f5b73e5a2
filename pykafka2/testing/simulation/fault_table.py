"""The table of all kinds of faults: maximum durations and generators of arguments."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from pykafka2.broker.config.keys import nearest
from pykafka2.errors import ConfigurationError
from pykafka2.testing.simulation.controller_faults import (
    Isolate,
    LateMetadata,
    MoveController,
    StandStill,
)
from pykafka2.testing.simulation.data_faults import (
    AddPartition,
    DeleteRecords,
    DiskFull,
    DoubleFailure,
    SlowReplication,
)
from pykafka2.testing.simulation.fault_kinds import (
    BreakConnection,
    BrokerLink,
    ClientClockJump,
    ClockJump,
    Clog,
    Crash,
    LateBytes,
    LinkFault,
    LoseNext,
    MoveCoordinator,
    MoveLeader,
    Pause,
    Refuse,
    Setting,
    Slow,
)
from pykafka2.testing.simulation.faults import Kind

if TYPE_CHECKING:
    from pykafka2.testing.simulation.world import World


def one_way(random: Random, world: World) -> list[tuple[str, str]]:
    """From one client to one broker, or back."""
    ends = [random.choice(world.clients), f"broker-{random.choice(world.broker_ids)}"]
    random.shuffle(ends)
    return [(ends[0], ends[1])]


def around(random: Random, world: World) -> list[tuple[str, str]]:
    """Return all traffic between a broker and clients."""
    place = f"broker-{random.choice(world.broker_ids)}"
    return [("*", place), (place, "*")]


def two_brokers(random: Random, world: World) -> dict[str, object]:
    one, other = random.sample(world.broker_ids, 2)
    return {"one": one, "other": other, "both": random.random() < 0.5}


def any_partition(random: Random, world: World) -> dict[str, object]:
    topic = random.choice(sorted(world.topics))
    partition = random.randrange(world.topics[topic])
    return {"topic": topic, "partition": partition, "to": random.choice(world.broker_ids)}


def slow_link(random: Random, world: World) -> dict[str, object]:
    one, other = random.sample(world.broker_ids, 2)
    return {"one": one, "other": other, "bytes_per_second": random.choice([100, 500, 2000])}


def some_records(random: Random, world: World) -> dict[str, object]:
    topic = random.choice(sorted(world.topics))
    partition = random.randrange(world.topics[topic])
    return {"topic": topic, "partition": partition, "share": random.choice([0.1, 0.5, 0.9, 1.0])}


def any_place(random: Random, world: World) -> str:
    return random.choice([*world.clients, *(f"broker-{broker}" for broker in world.broker_ids)])


def any_broker(random: Random, world: World) -> int:
    return random.choice(world.broker_ids)


KINDS: tuple[Kind, ...] = (
    Kind("break", 0.0, BreakConnection, lambda random, world: {"pick": random.random()}),
    Kind(
        "late bytes",
        0.0,
        LateBytes,
        lambda random, world: {"pick": random.random(), "late_by": random.uniform(0.01, 3.0)},
    ),
    Kind(
        "lose request",
        3.0,
        LoseNext,
        lambda random, world: {"pick": random.random(), "to_server": True},
    ),
    Kind(
        "lose reply",
        3.0,
        LoseNext,
        lambda random, world: {"pick": random.random(), "to_server": False},
    ),
    Kind("cut one way", 8.0, LinkFault, lambda random, world: {"ways": one_way(random, world)}),
    Kind("cut broker off", 6.0, LinkFault, lambda random, world: {"ways": around(random, world)}),
    Kind("cut brokers", 8.0, BrokerLink, two_brokers),
    Kind(
        "clog",
        4.0,
        Clog,
        lambda random, world: {"ways": one_way(random, world), "seconds": random.uniform(0.1, 4.0)},
    ),
    Kind(
        "slow",
        8.0,
        Slow,
        lambda random, world: {"ways": around(random, world), "extra_latency": random.uniform(0.02, 1.0)},
    ),
    Kind("refuse", 3.0, Refuse, lambda random, world: {"broker": any_broker(random, world)}),
    Kind(
        "pause",
        4.0,
        Pause,
        lambda random, world: {"place": any_place(random, world), "seconds": random.uniform(0.05, 4.0)},
    ),
    Kind("crash", 8.0, Crash, lambda random, world: {"broker": any_broker(random, world), "clean": False}),
    Kind("stop", 8.0, Crash, lambda random, world: {"broker": any_broker(random, world), "clean": True}),
    Kind(
        "crash unnoticed",
        20.0,
        Crash,
        lambda random, world: {"broker": any_broker(random, world), "clean": False, "unnoticed": True},
    ),
    Kind("isolate broker", 15.0, Isolate, lambda random, world: {"broker": any_broker(random, world)}),
    Kind("pause broker", 15.0, StandStill, lambda random, world: {"broker": any_broker(random, world)}),
    Kind("move controller", 0.0, MoveController, lambda random, world: {"broker": any_broker(random, world)}),
    Kind(
        "late metadata",
        10.0,
        LateMetadata,
        lambda random, world: {"broker": any_broker(random, world), "seconds": random.uniform(0.1, 8.0)},
    ),
    Kind("move leader", 0.0, MoveLeader, any_partition),
    Kind("move coordinator", 0.0, MoveCoordinator, lambda random, world: {"to": any_broker(random, world)}),
    Kind("clock jump", 3.0, ClockJump, lambda random, world: {"seconds": random.uniform(-3600.0, 3600.0)}),
    Kind(
        "client clock jump",
        10.0,
        ClientClockJump,
        lambda random, world: {
            "place": random.choice(world.clients),
            "seconds": random.uniform(-3600.0, 3600.0),
        },
    ),
    Kind("disk full", 6.0, DiskFull, lambda random, world: {"broker": any_broker(random, world)}),
    Kind("slow replication", 12.0, SlowReplication, slow_link),
    Kind("double failure", 8.0, DoubleFailure, lambda random, world: {}),
    Kind(
        "add partition",
        0.0,
        AddPartition,
        lambda random, world: {"topic": random.choice(sorted(world.topics))},
    ),
    Kind("delete records", 3.0, DeleteRecords, some_records),
    Kind(
        "slicing",
        4.0,
        Setting,
        lambda random, world: {"attribute": "slicing", "value": 1.0, "counter": "slices", "word": "sliced"},
    ),
    Kind(
        "small buffers",
        4.0,
        Setting,
        lambda random, world: {
            "attribute": "buffer_bytes",
            "value": random.choice([64, 256, 1024]),
            "counter": "full_writes",
            "word": "filled",
        },
    ),
)
"""All kinds of faults that a plan can draw; `kinds` chooses some by name."""


def kinds(*names: str) -> tuple[Kind, ...]:
    """Return the kinds of faults with these names, such as "crash" and "cut one way"; all without names.

    Raise `ConfigurationError` that names the nearest for a misspelt name.
    """
    known = {kind.name: kind for kind in KINDS}
    for name in names:
        if name not in known:
            raise ConfigurationError(f"Unknown kind of fault {name!r}{nearest(name, known)}")
    return tuple(known[name] for name in names) if names else KINDS
