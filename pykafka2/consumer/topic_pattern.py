"""A subscription by regular expression: which of the topics that there are it names.

Pure; the caller's thread.  Matched from the beginning of the name, as kafka-python does (`re.match`): end the
pattern with `$` to match whole names.
"""

from __future__ import annotations

import re

import attrs

from pykafka2.cluster.snapshot import ClusterSnapshot
from pykafka2.errors import IllegalArgument


@attrs.define(frozen=True)
class TopicPattern:
    """A pattern, and whether it may name Kafka's own topics (exclude_internal_topics)."""

    regex: re.Pattern[str]
    hides_internal: bool

    def topics(self, snapshot: ClusterSnapshot) -> frozenset[str]:
        """Those that exist and match."""
        match = self.regex.match
        return frozenset(
            name
            for name, topic in snapshot.topics.items()
            if topic.is_usable and not (topic.is_internal and self.hides_internal) and match(name)
        )


def topic_pattern(pattern: object, *, hides_internal: bool) -> TopicPattern:
    """Of a string or a compiled expression of strings.  Raises `IllegalArgument` for anything else."""
    try:
        regex = re.compile(pattern)  # type: ignore[call-overload]
    except (TypeError, re.error) as error:
        raise IllegalArgument(
            f"subscribe(): pattern={pattern!r} is no regular expression: {error}; write one of Python's re"
        ) from None
    if not isinstance(regex.pattern, str):
        raise IllegalArgument(f"subscribe(): pattern={pattern!r} is of bytes; topics are matched as text")
    return TopicPattern(regex, hides_internal)
