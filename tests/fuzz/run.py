"""`python -m tests.fuzz.run`: damaged bytes for every parser of what comes from the other side.

    --frames 1000000                 so many for each target
    --seconds 1800                   until the time is up
    --target responses               one target (repeatable); without it, all
    --seed 7                         other frames than those of seed 0
    --jobs 2                         processes
    --again responses 0 123456       one frame once more, with its bytes and its traceback

Prints for each target how many frames were read, refused and found wrong, the slowest one, and the most
memory of those that were weighed.  Exit status 1 if anything was found.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count

import attrs

from tests.campaign.seed_pool import play_all, without_logs
from tests.fuzz.targets import TARGETS
from tests.fuzz.trying import FRAMES_A_WEIGHING, Tally, limit_memory, try_frame, watched

FRAMES_A_PART = 5_000


@attrs.define(frozen=True)
class Part:
    """Some frames of one target, one after the other."""

    target: str
    seed: int
    begin: int
    end: int


def play(part: Part) -> tuple[Part, Tally]:
    """Try the frames of a part."""
    target, tally = TARGETS[part.target], Tally()
    limit_memory()
    for index in range(part.begin, part.end):
        made = target.frame(part.seed, index)
        weigh = index % FRAMES_A_WEIGHING == 0
        watched(partial(try_frame, target, index, made, tally, weigh=weigh))
    return part, tally


@without_logs()
def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments ask for; the exit status."""
    options = _parser().parse_args(arguments)
    if options.again:
        name, seed, index = options.again
        return _again(name, int(seed), int(index))
    began = time.monotonic()
    tallies = {name: Tally() for name in options.target or TARGETS}
    parts = _parts(options, list(tallies), began)
    for part, tally in play_all(play, parts, options.jobs):
        for found in tally.findings:
            data = found.data[:60].hex() + ("…" if len(found.data) > 60 else "")
            print(f"FOUND --again {found.target} {part.seed} {found.index}: {found.what}; {data}", flush=True)
        tallies[part.target].add(tally)
    _print(tallies, time.monotonic() - began, options.seed)
    return int(any(tally.findings for tally in tallies.values()))


def _parts(options: argparse.Namespace, names: list[str], began: float) -> Iterator[Part]:
    """The targets in turn, so that each has its share whenever the run ends."""
    for number in count():
        begin = number * FRAMES_A_PART
        for name in names:
            if options.seconds is not None and time.monotonic() - began > options.seconds:
                return
            if options.seconds is None and begin >= options.frames:
                return
            end = begin + FRAMES_A_PART if options.seconds is not None else options.frames
            yield Part(name, options.seed, begin, min(end, begin + FRAMES_A_PART))


def _again(name: str, seed: int, index: int) -> int:
    made = TARGETS[name].frame(seed, index)
    print(f"{made.about}\n{made.data.hex()}")
    try:
        watched(partial(TARGETS[name].read, made))
    except TARGETS[name].may_raise as error:
        print(f"refused: {error!r}")
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def _print(tallies: dict[str, Tally], seconds: float, seed: int) -> None:
    print(f"{'target':<14}{'frames':>11}{'refused':>9}{'found':>7}{'slowest':>10}{'memory':>10}")
    for name, tally in tallies.items():
        refused = f"{tally.refused / max(tally.frames, 1):.0%}"
        slowest, memory = f"{tally.slowest * 1000:.0f} ms", f"{tally.largest_bytes / 1024:.0f} KiB"
        print(f"{name:<14}{tally.frames:>11,}{refused:>9}{len(tally.findings):>7}{slowest:>10}{memory:>10}")
    total = sum(tally.frames for tally in tallies.values())
    print(f"{total:,} frames of seed {seed} in {seconds:.0f} s")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=__doc__)
    parser.add_argument("--frames", type=int, default=20_000)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", action="append", choices=[*TARGETS])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--again", nargs=3, metavar=("TARGET", "SEED", "INDEX"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
