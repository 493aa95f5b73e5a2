"""Changes positions and pauses for the application or for a reset policy.

Used on the caller's thread. Changes are stored in state/subscription.py and sent to the fetcher as commands,
which run on the driver's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from pykafka2.consumer.fetch.fetcher import Fetcher
from pykafka2.consumer.reset_policy import reset_timestamp
from pykafka2.consumer.state.subscription import Subscription
from pykafka2.driver.driver import Driver
from pykafka2.types import TopicPartition


class PositionControl:
    """Changes positions and pauses, and sends them to the fetcher."""

    def __init__(self, subscription: Subscription, fetcher: Fetcher, driver: Driver) -> None:
        self._subscription = subscription
        self._buffer = fetcher.buffer
        self._fetcher = fetcher
        self._driver = driver

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._subscription.seek(partition, offset)
        self.send_changes()

    def rewind(self, partition: TopicPartition, offset: int) -> None:
        """Read records again that were not returned."""
        self._subscription.rewind(partition, offset)
        self.send_changes()

    def reset(self, partitions: Iterable[TopicPartition], policy: str) -> None:
        """Reset these partitions by a policy; the fetcher looks up the offsets."""
        timestamp = reset_timestamp(policy, self._driver.clock.wall_ms())
        for partition in partitions:
            self._subscription.begin_reset(partition, timestamp)
        self.send_changes()

    def pause(self, partitions: Iterable[TopicPartition], is_paused: bool) -> None:
        for partition in partitions:
            self._subscription.pause(partition, is_paused)
        self.send_changes()

    def send_changes(self) -> None:
        """Send all changes to the driver's thread, and discard data fetched for earlier positions."""
        subscription, buffer, fetcher = self._subscription, self._buffer, self._fetcher
        unsent, unsent_pauses = sorted(subscription.unsent), sorted(subscription.unsent_pauses)
        commands: list[Callable[[], None]] = []
        buffer.discard(unsent)
        for partition in unsent:
            assigned = subscription.assigned.get(partition)
            position = subscription.positions.get(partition)
            if assigned is None:
                commands.append(partial(fetcher.end, (partition,)))
            elif assigned.resetting_to is not None:
                commands.append(partial(fetcher.reset, partition, assigned.generation, assigned.resetting_to))
            elif position is not None:
                epoch = subscription.leader_epochs.get(partition, -1)
                origin = assigned.origin
                commands.append(
                    partial(fetcher.begin, partition, assigned.generation, position, epoch, origin)
                )
        paused = subscription.paused()
        # Also the pause state of new positions: the fetcher still pauses a partition that was paused when it
        # was last unassigned.
        changed = sorted({*unsent_pauses, *unsent} & subscription.assigned.keys())
        to_pause = [partition for partition in changed if partition in paused]
        to_resume = [partition for partition in changed if partition not in paused]
        if to_pause:
            commands.append(partial(fetcher.pause, to_pause))
        if to_resume:
            commands.append(partial(fetcher.resume, to_resume))

        def run_commands(now: float) -> None:
            for command in commands:
                command()

        if commands:
            self._driver.call_soon(run_commands)
        subscription.unsent.difference_update(unsent)
        subscription.unsent_pauses.difference_update(unsent_pauses)
