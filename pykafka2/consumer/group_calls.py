"""The calls of `KafkaConsumer` that need a membership: declared, and refused until there are members.

Callers' threads.  Membership and heartbeats will stand beside fetcher.py as managers of their own.
"""

from __future__ import annotations

from typing import NoReturn

from pykafka2.errors import NotYetAvailable


class GroupCalls:
    """Mixed into the consumer."""

    def enforce_rebalance(self) -> None:
        """Have the group share its partitions anew; the next `poll` does it.

        Raises:
            NotYetAvailable: this version has no members of groups yet.
        """
        self._no_groups("enforce_rebalance")

    def _no_groups(self, what: str) -> NoReturn:
        raise NotYetAvailable(
            f"{what}() needs a consumer group, and this version has none yet; "
            "keep position() yourself and come back to it with seek()"
        )
