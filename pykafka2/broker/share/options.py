"""The options of share groups, over those of the broker (KIP-932, KIP-1191).

Read from the broker's latest metadata on each use, so that changes apply at once. Access requires the
cluster's lock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import attrs

from pykafka2.broker.base.image import GROUP_RESOURCE
from pykafka2.broker.node import Node

SHARE_VERSION: Final = "share.version"
WITH_DEAD_LETTERS: Final = 2
"""The first level of share.version with dead-letter topics."""

DURATION: Final = re.compile(
    r"[+]?P(?:([-+]?\d+)D)?(?:T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+(?:[.,]\d{0,9})?)S)?)?\Z",
    re.IGNORECASE | re.ASCII,
)
UNIT_SECONDS: Final = (86_400, 3_600, 60, 1)


@attrs.define(frozen=True)
class ShareGroupOptions:
    """The effective options of one share group."""

    record_lock: float
    """Seconds that a member holds a record (share.record.lock.duration.ms)."""
    delivery_limit: int
    """share.delivery.count.limit"""
    max_record_locks: int
    """share.partition.max.record.locks"""
    read_committed: bool
    """share.isolation.level"""
    can_renew: bool
    """share.renew.acknowledge.enable"""
    offset_reset: str
    """share.auto.offset.reset: earliest, latest, or by_duration with a duration."""
    dead_letter_topic: str
    """errors.deadletterqueue.topic.name; empty without a dead-letter topic."""
    copies_dead_letters: bool
    """errors.deadletterqueue.copy.record.enable"""

    @property
    def reset_duration_ms(self) -> int:
        """The duration of by_duration, in milliseconds."""
        found = DURATION.match(self.offset_reset.partition(":")[2])
        if found is None:
            return 0
        numbers = (float((number or "0").replace(",", ".")) for number in found.groups())
        return round(sum(number * unit for number, unit in zip(numbers, UNIT_SECONDS, strict=True)) * 1000)


class ShareOptions:
    """The options of all share groups, as one broker sees them."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._known: dict[str, tuple[Mapping[str, str], int, ShareGroupOptions]] = {}

    def of(self, group_id: str) -> ShareGroupOptions:
        """Return the options of a group."""
        config = self._node.config
        own = self._node.image.configs_of(GROUP_RESOURCE, group_id)
        known = self._known.get(group_id)
        if known is not None and known[0] == own and known[1] == config.version:
            return known[2]
        options = self._parse(own)
        self._known[group_id] = own, config.version, options
        return options

    def forget(self, group_id: str) -> None:
        """Drop what is known of a group that has no share partition here any more."""
        self._known.pop(group_id, None)

    def _parse(self, own: Mapping[str, str]) -> ShareGroupOptions:
        config = self._node.config

        def number(name: str) -> int:
            text = own.get(f"share.{name}")
            if text is None:
                return config.int(f"group.share.{name}")
            # The bounds can have changed since the group's value was set.
            least, most = config.int(f"group.share.min.{name}"), config.int(f"group.share.max.{name}")
            return min(max(int(text), least), most)

        return ShareGroupOptions(
            number("record.lock.duration.ms") / 1000.0,
            number("delivery.count.limit"),
            number("partition.max.record.locks"),
            own.get("share.isolation.level") == "read_committed",
            own.get("share.renew.acknowledge.enable", "true").lower() == "true",
            own.get("share.auto.offset.reset", "latest"),
            own.get("errors.deadletterqueue.topic.name", ""),
            own.get("errors.deadletterqueue.copy.record.enable", "false").lower() == "true",
        )

    @property
    def are_groups_enabled(self) -> bool:
        """Whether the finalized features have share groups."""
        return self._node.image.features.get(SHARE_VERSION, 0) > 0

    def has_dead_letters(self, group_id: str) -> bool:
        """Return whether rejected records of a group go to a dead-letter topic."""
        level = self._node.image.features.get(SHARE_VERSION, 0)
        return level >= WITH_DEAD_LETTERS and bool(self.of(group_id).dead_letter_topic)
