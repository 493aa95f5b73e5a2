"""`python -m tests.campaign.transaction_run --seeds 0-99`: transactions under faults.

Each seed is played in both versions of transactions, with `--jobs` several at a time; a failure prints its
seed and version, which play it again.  Exit status 1 if one failed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial

from pykafka2.testing.simulation.faults import Tallies, add_tallies, table
from tests.campaign.run import seed_range
from tests.campaign.seed_pool import play_all, without_logs
from tests.campaign.transactions import Story, play


@without_logs()
def main(arguments: Sequence[str] | None = None) -> int:
    """Play what the arguments ask for; the exit status."""
    options = _parser().parse_args(arguments)
    tallies: Tallies = {}
    failed = 0
    began = time.monotonic()
    plays = [(seed, version) for seed in options.seeds for version in options.versions]
    one = partial(play_one, seconds=options.virtual_seconds, by_clients=options.clients)
    for (seed, version), story in play_all(one, plays, options.jobs):
        if isinstance(story, str):
            failed += 1
            print(f"FAILED: seed {seed}, version {version}: {story}")
            continue
        add_tallies(tallies, story.tallies)
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(story.outcomes.items()))
        print(
            f"seed {seed}, version {version}: {outcomes}; {story.fenced} fenced, {story.values} values "
            f"read, {story.effective_faults} faults, trace {story.trace_hash}"
        )
    print(table(tallies))
    print(f"{len(options.seeds)} seeds in {time.monotonic() - began:.0f} s, {failed} plays failed")
    return 1 if failed else 0


def play_one(what: tuple[int, int], seconds: float, by_clients: bool) -> tuple[tuple[int, int], Story | str]:
    """A seed in a version, in whatever process: what it did, or what failed in words."""
    seed, version = what
    try:
        return what, play(seed, seconds=seconds, transaction_version=version, by_clients=by_clients)
    except Exception as error:
        return what, f"{type(error).__name__}: {error}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaign.transaction_run",
        description="Play transactions under faults for many seeds.",
    )
    parser.add_argument("--seeds", type=seed_range, default=seed_range("0-9"), help="seeds to play: 0-99")
    parser.add_argument("--versions", type=int, nargs="+", default=[2, 1], choices=[1, 2])
    parser.add_argument("--clients", action="store_true", help="write by KafkaProducer, not by raw requests")
    parser.add_argument("--jobs", type=int, default=1, help="how many are played at a time")
    parser.add_argument("--virtual-seconds", type=float, default=40.0, help="how long faults go on")
    return parser


if __name__ == "__main__":
    sys.exit(main())
