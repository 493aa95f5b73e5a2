"""One seed of a scenario, played to its end, and the report of what it did.

Between the scenarios (system_story.py, producer_story.py), which know what is played, and the runner with its
files (run.py, results.py), which know how many.
"""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Callable

import attrs

from pykafka2.testing.simulation.facade import Simulation
from pykafka2.testing.simulation.faults import Tallies
from pykafka2.testing.simulation.world import World

# Real seconds: thousands of seeds are played in the background of busy machines.
REAL_PATIENCE = 60.0

Sabotage = Callable[[World], object]
"""Plants a bug, for the checkers' self-test; called when the clients have been made."""


@attrs.define
class Report:
    """Results of a seed."""

    seed: int
    scenario: str = "system"
    """The runner's `--scenario` value."""
    seconds: float = 0.0
    operations: int = 0
    records: int = 0
    reads: int = 0
    outcomes: dict[str, int] = attrs.field(factory=dict)
    """Sends by outcome: ok, failed, unknown, open."""
    effective_faults: int = 0
    tallies: Tallies = attrs.field(factory=dict)
    counts: bool = False
    """Whether this seed put the system to a real test: each scenario says from where on."""
    trace_hash: str = ""
    processor_seconds: float = 0.0
    error: BaseException | None = None
    failure: str = ""
    """The error in words, with its traceback; empty if the seed kept every promise."""
    timeline: str = ""


def play_seed(report: Report, play: Callable[[Simulation], None], *, keep_timeline: bool = False) -> Report:
    """Play the report's seed; a violation or any other failure is in the report as its `error`."""
    began = time.process_time()
    # A seed lives for a second or less; looking for cycles in the midst of it costs a fifteenth of that, and
    # at its end as much again while its world is still there.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        _play_and_report(report, play, keep_timeline)
    finally:
        gc.collect(0)
        # Once more for what finalizers have revived: the exception of a suspended generator that the
        # collector closed refers to its frames, and so to the whole world. Nothing else is left there.
        gc.collect(1)
        if was_enabled:
            gc.enable()
    report.processor_seconds = time.process_time() - began
    return report


def _play_and_report(report: Report, play: Callable[[Simulation], None], keep_timeline: bool) -> None:
    simulation = Simulation(report.seed, watchdog=REAL_PATIENCE, keep_timeline=keep_timeline)
    try:
        with simulation:
            play(simulation)
    except Exception as error:
        report.error = error
        report.failure = "".join(traceback.format_exception(error))
    report.seconds = simulation.now
    report.trace_hash = simulation.trace_hash
    if keep_timeline or report.error is not None:
        report.timeline = simulation.timeline()
