"""Where each micro-batch of a stream ends: new data, limits, waiting, losses, `Trigger.AvailableNow`.

One object for a query's life, driver side, one thread; knows nothing of Spark's classes and reads no clock.
Neighbours: stream.py calls it for Spark; topics.py asks the brokers.

The first micro-batch is left empty.  Spark writes down where a batch ends, not where the first one began, and
asks again for the beginning when that batch has to be played again: `latest` would then be further on, and
what lies between lost.  An empty first batch makes the beginning an end, which is written down.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from pykafka2.errors import UnknownTopicOrPartition
from spark_connector.offsets import Offsets, shown
from spark_connector.options.source_options import LATEST, SourceOptions
from spark_connector.source.limits import shared_out, waiting
from spark_connector.source.losses import tell
from spark_connector.source.positions import is_reproducible, starting_offsets
from spark_connector.source.samples import Samples
from spark_connector.source.topics import Topics


@attrs.define
class MicroBatches:
    _options: SourceOptions
    _topics: Topics
    _samples: Samples
    _now: Callable[[], float]
    """Seconds, of a clock that never goes back."""
    _first: Offsets | None = None
    _is_begun: bool = False
    """Whether there is a first batch, of this run or of the one that is gone on with."""
    _last_end: Offsets | None = None
    """What there was at the last look."""
    _available_now: Offsets | None = None
    """Where a run of `Trigger.AvailableNow` ends."""
    _last_batch_at: float | None = None
    _seen: set[str] = attrs.Factory(set)
    """Topics of this run's offsets and looks; later offsets do not speak of one that was deleted."""

    def first_offsets(self) -> Offsets:
        """Where a new query begins; the same answer every time, as Spark asks more than once."""
        if self._first is None:
            partitions = self._topics.partitions()
            self._seen |= {one.topic for one in partitions}
            self._first = starting_offsets(self._options, self._topics, partitions, LATEST)
        return self._first

    def prepare_for_available_now(self) -> None:
        """What arrives from here on is for the next run."""
        self._available_now = self._look()[0]

    def end_of_next(self, start: Offsets | None, *, takes_all: bool) -> Offsets:
        """Where the micro-batch that begins at `start` ends; `start` itself where there is nothing to do.

        Args:
            start: None where Spark does not say it (before 4.2), so that nothing can be limited.
            takes_all: limits do not count (Trigger.Once).

        Raises:
            DataLoss: what was to be read is gone, and failOnDataLoss is true.
            UnknownTopicOrPartition: a topic that the options name was never there.
        """
        if self._leaves_empty(start, takes_all):
            return self.first_offsets()
        ends = self._ends(start)
        if start is None or takes_all:
            return ends
        begins = self._begins(start, ends)
        total = sum(waiting(begins, ends).values())
        if not total and ends.keys() == start.keys() and all(ends[one] >= start[one] for one in ends):
            return start
        if self._is_held_back(total):
            return start
        self._last_batch_at = self._now()
        return self._limited(begins, ends)

    def begun(self) -> None:
        """A batch is carried out; it may be the first one, played again, before anybody asks for an end."""
        self._is_begun = True

    def last_look(self) -> Offsets | None:
        """Where the partitions ended when they were last looked at."""
        return self._last_end

    def check_losses(self, start: Offsets, ends: Offsets) -> None:
        """Tell what was read up to `start` and does not reach so far any more.  Raises `DataLoss`."""
        gone = start.keys() - ends.keys()
        if gone:
            self._tell(f"{shown(gone)}: gone")
        back = {one: end for one, end in ends.items() if end < start.get(one, end)}
        for one, end in back.items():
            self._tell(f"{shown({one})} went back from offset {start[one]} to {end}")

    # ------------------------------------------------------------------ the first batch

    def _leaves_empty(self, start: Offsets | None, takes_all: bool) -> bool:
        """Trigger.Once has one batch only: it is not left empty where the beginning is found again anyway."""
        if self._is_begun or self._first is None or start not in (None, self._first):
            return False
        self._is_begun = True
        return not (takes_all and is_reproducible(self._options))

    # ------------------------------------------------------------------ what there is

    def _look(self) -> tuple[Offsets, list[str]]:
        partitions, missing = self._topics.partitions_there()
        self._seen |= {one.topic for one in partitions}
        self._last_end = self._topics.ends(partitions)
        return self._last_end, missing

    def _look_again(self, known: Offsets, ends: Offsets, missing: list[str]) -> tuple[Offsets, list[str]]:
        """Until all that is known is there, or questions are not asked again."""
        for _ in self._topics.pauses():
            ends, missing = self._look()
            if _reaches(ends, known):
                break
        return ends, missing

    def _ends(self, start: Offsets | None) -> Offsets:
        ends, missing = self._look()
        if start is not None:
            self._seen |= {one.topic for one in start}
            if not _reaches(
                ends, start
            ):  # a broker may have just started, or lead no more without knowing it
                ends, missing = self._look_again(start, ends, missing)
            self.check_losses(start, ends)
        if missing and not self._were_known():
            raise UnknownTopicOrPartition("; ".join(missing))
        return ends if self._available_now is None else self._up_to(self._available_now, start or {}, ends)

    def _up_to(self, target: Offsets, start: Offsets, ends: Offsets) -> Offsets:
        """What Trigger.AvailableNow set out to read; it fails if that is not there any more."""
        gone = target.keys() - ends.keys() - start.keys()  # of those in `start` it was said
        if gone:
            self._tell(f"{shown(gone)}: gone since the run of Trigger.AvailableNow began")
        for one in sorted(target.keys() & ends.keys()):
            if start.get(one, 0) <= ends[one] < target[one]:
                self._tell(
                    f"{shown({one})} ended at offset {target[one]} when the run of Trigger.AvailableNow "
                    f"began, and ends at {ends[one]} now"
                )
        # What a broker overlooked when the run began stays where it is; nothing goes back behind the start.
        limits = {one: max(target.get(one, 0), start.get(one, 0)) for one in target.keys() | start.keys()}
        return {one: min(end, limits[one]) for one, end in ends.items() if one in limits}

    def _were_known(self) -> bool:
        """Whether what the options name and is not there once was: then it is a loss, and told as one."""
        named = {one.topic for one in self._options.assign or ()} | set(self._options.subscribe or ())
        return named <= self._seen

    def _begins(self, start: Offsets, ends: Offsets) -> Offsets:
        """Where the batch begins in each partition; a new one is read from its beginning."""
        new = ends.keys() - start.keys()
        if not new:
            return start
        beginnings = self._topics.beginnings(new)
        for one in sorted(new):
            if beginnings[one]:
                self._tell(f"new partition {shown({one})} begins at offset {beginnings[one]}, not at 0")
        return {**start, **beginnings}

    def _tell(self, what: str) -> None:
        tell(what, fails=self._options.fail_on_data_loss)

    # ------------------------------------------------------------------ how much of it

    def _is_held_back(self, total: int) -> bool:
        """A run of what is available now waits for nothing: nothing more will come."""
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


def _reaches(ends: Offsets, known: Offsets) -> bool:
    """Whether each partition is there and ends where it is known to have ended, or behind it."""
    return all(one in ends and ends[one] >= offset for one, offset in known.items())
