"""Chooses the end offsets of each micro-batch: new data, limits, delays, losses, `Trigger.AvailableNow`.

One object per query, on the driver, one thread; uses no class of Spark and reads no clock.
Neighbors: stream.py calls it for Spark; topics.py looks up offsets.

The first micro-batch is left empty.  Spark records the end of a batch, but not the start of the first one. If
it replays that batch, it requests the start again; `latest` would then be later, and the records in between
would be lost.  An empty first batch turns the start into a recorded end.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from pykafka2.errors import UnknownTopicOrPartition
from spark_connector.offsets import Offsets, shown
from spark_connector.options.source_options import LATEST, SourceOptions
from spark_connector.source.limits import shared_out, waiting
from spark_connector.source.losses import report_loss
from spark_connector.source.positions import is_reproducible, starting_offsets
from spark_connector.source.samples import Samples
from spark_connector.source.topics import Topics


@attrs.define
class MicroBatches:
    _options: SourceOptions
    _topics: Topics
    _samples: Samples
    _now: Callable[[], float]
    """Returns seconds of a monotonic clock."""
    _first: Offsets | None = None
    _is_begun: bool = False
    """Whether there was a first batch, of this run or of the one that it continues."""
    _last_end: Offsets | None = None
    """End offsets of the last lookup."""
    _available_now: Offsets | None = None
    """The end offsets of a run with `Trigger.AvailableNow`."""
    _last_batch_at: float | None = None
    _seen: set[str] = attrs.Factory(set)
    """Topics found by this run; a deleted topic is missing from later offsets."""
    _ids: dict[str, bytes] = attrs.Factory(dict)
    """Topic ids found by this run: another id means that the topic was created again."""

    def first_offsets(self) -> Offsets:
        """Return where a new query begins; always the same offsets, as Spark calls this more than once."""
        if self._first is None:
            partitions = self._topics.partitions()
            self._seen |= {partition.topic for partition in partitions}
            self._ids.update(self._topics.ids)
            self._first = starting_offsets(self._options, self._topics, partitions, LATEST)
        return self._first

    def prepare_for_available_now(self) -> None:
        """Fix the end of the run: later records belong to the next run."""
        self._available_now = self._look_up_ends()[0]
        self._ids = {**self._topics.ids, **self._ids}

    def end_of_next(self, start: Offsets | None, *, takes_all: bool) -> Offsets:
        """Return the end of the micro-batch that begins at `start`; `start` itself if there is nothing to
        read.

        Args:
            start: None if Spark does not pass it (before 4.2); then limits do not apply.
            takes_all: ignore limits (Trigger.Once).

        Raises:
            DataLoss: records were deleted before they were read, and failOnDataLoss is true.
            UnknownTopicOrPartition: a topic that the options name never existed.
        """
        if self._leaves_empty(start, takes_all):
            return self.first_offsets()
        ends = self._ends(start)
        if start is None or takes_all:
            return ends
        begins = self._begins(start, ends)
        total = sum(waiting(begins, ends).values())
        if (
            not total
            and ends.keys() == start.keys()
            and all(ends[partition] >= start[partition] for partition in ends)
        ):
            return start
        if self._is_held_back(total):
            return start
        self._last_batch_at = self._now()
        return self._limited(begins, ends)

    def begun(self) -> None:
        """Record that a batch runs: possibly a replay of the first one, before any end was requested."""
        self._is_begun = True

    def last_ends(self) -> Offsets | None:
        """Return the end offsets of the last lookup."""
        return self._last_end

    def check_losses(self, start: Offsets, ends: Offsets) -> None:
        """Report partitions that end before `start` or no longer exist.  Raise `DataLoss`."""
        gone = start.keys() - ends.keys()
        if gone:
            self._report_loss(f"{shown(gone)} no longer exists")
        back = {partition: end for partition, end in ends.items() if end < start.get(partition, end)}
        for partition, end in back.items():
            self._report_loss(f"{shown({partition})} was truncated from offset {start[partition]} to {end}")

    # ------------------------------------------------------------------ the first batch

    def _leaves_empty(self, start: Offsets | None, takes_all: bool) -> bool:
        """Return whether this is the empty first batch: with Trigger.Once if the start cannot be found."""
        if self._is_begun or self._first is None or start not in (None, self._first):
            return False
        self._is_begun = True
        return not (takes_all and is_reproducible(self._options))

    # ------------------------------------------------------------------ what there is

    def _look_up_ends(self) -> tuple[Offsets, list[str]]:
        partitions, missing = self._topics.partitions_there()
        self._seen |= {partition.topic for partition in partitions}
        self._last_end = self._topics.ends(partitions)
        return self._last_end, missing

    def _look_up_all(self, known: Offsets) -> tuple[Offsets, list[str]]:
        """Repeat the lookup until all known offsets exist in topics of the same id, or retries are used up.

        A broker may have just started, be behind, or be a stale leader.
        """
        ends, missing = self._look_up_ends()
        if self._is_plausible(ends, known):
            return ends, missing
        for _ in self._topics.pauses():
            ends, missing = self._look_up_ends()
            if self._is_plausible(ends, known):
                break
        return ends, missing

    def _is_plausible(self, ends: Offsets, known: Offsets) -> bool:
        """Return whether the last lookup shows no loss."""
        return not self._recreated() and _reaches(ends, known)

    def _ends(self, start: Offsets | None) -> Offsets:
        ends, missing = self._look_up_all(start or {})
        ends, start = self._without(self._recreated(), ends, start)
        if start is not None:
            self._seen |= {partition.topic for partition in start}
            self.check_losses(start, ends)
        if missing and not self._existed_before():
            raise UnknownTopicOrPartition("; ".join(missing))
        return ends if self._available_now is None else self._up_to(self._available_now, start or {}, ends)

    def _recreated(self) -> set[str]:
        """Return the topics that have another id than before in this run, according to the last lookup."""
        return {name for name, found in self._topics.ids.items() if self._ids.get(name, found) != found}

    def _without(
        self, recreated: set[str], ends: Offsets, start: Offsets | None
    ) -> tuple[Offsets, Offsets | None]:
        """Report topics that were created again, and return the offsets without them.

        The batch leaves them out, so the checkpoint records that the next one begins at their beginning.  A
        run of Trigger.AvailableNow leaves them to the next run.
        """
        for topic in sorted(recreated):
            if start is None or any(partition.topic == topic for partition in start):
                self._report_loss(f"topic {topic!r} was deleted and created again while the query ran")
        self._ids.update(self._topics.ids)
        if self._available_now is not None:
            self._available_now = _but(recreated, self._available_now)
        return _but(recreated, ends), None if start is None else _but(recreated, start)

    def _up_to(self, target: Offsets, start: Offsets, ends: Offsets) -> Offsets:
        """Limit ends to the target of Trigger.AvailableNow, and report a target that no longer exists."""
        gone = target.keys() - ends.keys() - start.keys()  # check_losses reported those in `start`
        if gone:
            self._report_loss(f"{shown(gone)} was deleted since the run of Trigger.AvailableNow began")
        for partition in sorted(target.keys() & ends.keys()):
            if start.get(partition, 0) <= ends[partition] < target[partition]:
                self._report_loss(
                    f"{shown({partition})} ended at offset {target[partition]} when the run of "
                    "Trigger.AvailableNow "
                    f"began, but now ends at {ends[partition]}"
                )
        # A partition that was missed when the run began stays where it is; no end moves before its start.
        limits = {
            partition: max(target.get(partition, 0), start.get(partition, 0))
            for partition in target.keys() | start.keys()
        }
        return {
            partition: min(end, limits[partition]) for partition, end in ends.items() if partition in limits
        }

    def _existed_before(self) -> bool:
        """Return whether all topics of the options existed before; then a missing one is a loss."""
        named = {partition.topic for partition in self._options.assign or ()} | set(
            self._options.subscribe or ()
        )
        return named <= self._seen

    def _begins(self, start: Offsets, ends: Offsets) -> Offsets:
        """Return where the batch begins in each partition; a new partition is read from its beginning."""
        new = ends.keys() - start.keys()
        if not new:
            return start
        beginnings = self._topics.beginnings(new)
        for partition in sorted(new):
            if beginnings[partition]:
                self._report_loss(
                    f"new partition {shown({partition})} begins at offset {beginnings[partition]}, not at 0"
                )
        return {**start, **beginnings}

    def _report_loss(self, what: str) -> None:
        report_loss(what, fails=self._options.fail_on_data_loss)

    # ------------------------------------------------------------------ how much of it

    def _is_held_back(self, total: int) -> bool:
        """Return whether minOffsetsPerTrigger delays the batch; never with Trigger.AvailableNow: no more will
        come.
        """
        least = self._options.min_offsets_per_trigger
        if least is None or total >= least or self._available_now is not None:
            return False
        waited_ms = self._options.max_trigger_delay_ms
        if self._last_batch_at is not None:
            waited_ms = (self._now() - self._last_batch_at) * 1000
        return waited_ms < self._options.max_trigger_delay_ms

    def _limited(self, begins: Offsets, ends: Offsets) -> Offsets:
        if self._options.max_offsets_per_trigger is not None:
            ends = shared_out(self._options.max_offsets_per_trigger, begins, ends)
        if self._options.max_bytes_per_trigger is not None:
            ends = self._samples.shared_out(self._options.max_bytes_per_trigger, begins, ends)
        return ends


def _but(topics: set[str], offsets: Offsets) -> Offsets:
    """Return offsets of other topics."""
    return {partition: offset for partition, offset in offsets.items() if partition.topic not in topics}


def _reaches(ends: Offsets, known: Offsets) -> bool:
    """Return whether each partition exists and ends at its known end offset or later."""
    return all(partition in ends and ends[partition] >= offset for partition, offset in known.items())
