"""The scenarios that the runner knows by name, each with its sizes and its faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from pykafka2.testing.simulation.fault_table import KINDS
from tests.campaign import (
    aio_story,
    consumer_story,
    copy_story,
    producer_story,
    queue_story,
    system_story,
)
from tests.campaign.consumer_faults import consumer_kinds
from tests.campaign.producer_faults import producer_kinds
from tests.campaign.queue_faults import queue_kinds
from tests.campaign.seed import Report

PlaySeed = Callable[[int, Mapping[str, Any], bool], Report]
"""Seed, sizes, whether the whole timeline is kept."""


@attrs.define(frozen=True)
class Scenario:
    """One scenario: the function that plays a seed, its default size, and its faults."""

    name: str
    play: PlaySeed
    sizes: Mapping[str, Any]
    fault_names: tuple[str, ...]
    seeds_for_all_faults: int
    """With fewer seeds than this a fault may be missing by chance: each seed uses half of them."""


def _system(seed: int, sizes: Mapping[str, Any], keep_timeline: bool) -> Report:
    return system_story.run_seed(seed, system_story.Shape(**sizes), keep_timeline=keep_timeline)


def _producers(seed: int, sizes: Mapping[str, Any], keep_timeline: bool) -> Report:
    shape = producer_story.ProducerShape(**sizes)
    return producer_story.run_seed(seed, shape, keep_timeline=keep_timeline)


def _consumers(seed: int, sizes: Mapping[str, Any], keep_timeline: bool) -> Report:
    shape = consumer_story.ConsumerShape(**sizes)
    return consumer_story.run_seed(seed, shape, keep_timeline=keep_timeline)


def _copies(seed: int, sizes: Mapping[str, Any], keep_timeline: bool) -> Report:
    return copy_story.run_seed(seed, copy_story.CopyShape(**sizes), keep_timeline=keep_timeline)


def _aio(seed: int, sizes: Mapping[str, Any], keep_timeline: bool) -> Report:
    return aio_story.run_seed(seed, aio_story.AioShape(**sizes), keep_timeline=keep_timeline)


def _queues(seed: int, sizes: Mapping[str, Any], keep_timeline: bool) -> Report:
    return queue_story.run_seed(seed, queue_story.QueueShape(**sizes), keep_timeline=keep_timeline)


SCENARIOS = {
    "system": Scenario(
        "system",
        _system,
        {"seconds": 60.0, "brokers": 3, "producers": 2, "consumers": 1, "members": 2},
        tuple(kind.name for kind in KINDS),
        25,
    ),
    "producers": Scenario(
        "producers",
        _producers,
        {"seconds": producer_story.SECONDS, "producers": 0},
        tuple(kind.name for kind in producer_kinds()),
        100,
    ),
    "consumers": Scenario(
        "consumers",
        _consumers,
        {"seconds": consumer_story.SECONDS, "consumers": 0},
        tuple(kind.name for kind in consumer_kinds()),
        100,
    ),
    "copies": Scenario(
        "copies",
        _copies,
        {"seconds": copy_story.SECONDS, "consumers": 0},
        tuple(kind.name for kind in copy_story.copy_kinds()),
        100,
    ),
    "aio": Scenario(
        "aio",
        _aio,
        {"seconds": aio_story.SECONDS, "consumers": 0},
        tuple(kind.name for kind in aio_story.aio_kinds()),
        100,
    ),
    "queues": Scenario(
        "queues",
        _queues,
        {"seconds": queue_story.SECONDS, "members": 0},
        tuple(kind.name for kind in queue_kinds()),
        100,
    ),
}
