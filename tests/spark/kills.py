"""Kills Spark with SIGKILL at every step of the sink's protocol, starts it again, and counts the rows.

    python -m tests.spark.kills --resume kills.jsonl [--seconds 300]
    python -m tests.spark.kills --cluster apache --delivery exactly_once --only in-recovery

Each line of the table is a query of three micro-batches that was killed (JVM, driver and Python workers at
once), perhaps killed again in its recovery, then run to its end; several are killed in one start of Spark.
What a reader of another library sees with read_committed is compared with what went in.

Some queries lose their ledger between two starts, or find an older copy of their checkpoint: `--damage
"checkpoint -1"`.  Those have to write everything once or end with the error that names the condition (verdict
"refused").  LOST and REPEATED are verdicts of queries that say nothing.

All of it takes about an hour; with --resume what is in the file already is not played again, so
that it can be played in parts.  Ends with 1 if anything was lost, or repeated where it must not be.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.spark.kill_campaign import AT_ONCE, Campaign, class_archive
from tests.spark.kill_clusters import running
from tests.spark.kill_plans import (
    CLUSTERS,
    HEADING,
    STEPS,
    Outcome,
    Plan,
    all_plans,
    record,
    recorded,
    summary,
)

FEW = 8
"""So many queries are not worth an archive of classes."""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.spark.kills",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--cluster", choices=CLUSTERS, help="default: all, one after the other")
    parser.add_argument("--delivery", choices=sorted(STEPS), help="default: all")
    parser.add_argument("--only", default="", help="one step alone")
    parser.add_argument("--damage", help="one violated condition alone; 'none' for queries without")
    parser.add_argument("--most", type=int, default=10_000, help="end after so many queries")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no query after so many")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help=f"queries a start ({AT_ONCE})")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", type=Path, metavar="FILE", help="keep outcomes, and pass over these")
    return parser.parse_args(arguments)


def wanted(options: argparse.Namespace) -> list[Plan]:
    """Those that are to be played now."""
    known = {one.plan for one in recorded(options.resume)}
    found = [
        plan
        for plan in all_plans(seed=options.seed)
        if plan not in known
        and options.cluster in (None, plan.cluster)
        and options.delivery in (None, plan.delivery)
        and any(kill.startswith(options.only) for kill in plan.kills)
        and options.damage in (None, plan.damage or "none")
    ]
    return found[: options.most]


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    outcomes = recorded(options.resume)
    print(HEADING, flush=True)
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        for one in played(options, wanted(options), Path(folder)):
            outcomes.append(one)
            record(options.resume, one)
            print(one, flush=True)
    print(*summary(outcomes), sep="\n")
    return 0 if all(one.is_good for one in outcomes) else 1


def played(options: argparse.Namespace, plans: Sequence[Plan], folder: Path) -> Iterator[Outcome]:
    """Play the plans of each cluster in turn.  All of them share one archive of classes."""
    deadline = time.monotonic() + options.seconds
    archive: Path | None = None
    for name in dict.fromkeys(plan.cluster for plan in plans):
        if time.monotonic() > deadline:
            return
        with running(name) as brokers:
            (folder / name).mkdir()
            if archive is None and len(plans) > FEW:
                archive = class_archive(brokers, folder / name)
            campaign = Campaign(brokers, folder / name, archive, options.at_once)
            of_cluster = [plan for plan in plans if plan.cluster == name]
            yield from campaign.play(of_cluster, lambda: time.monotonic() > deadline)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
