"""The options of the sink."""

from __future__ import annotations

import attrs

from spark_connector.options.fields import option


def _topic(text: str) -> str:
    if not text.strip():
        raise ValueError
    return text.strip()


@attrs.define(kw_only=True, frozen=True)
class SinkOptions:
    """What a sink was told; `kafka` are the options of its producers."""

    topic: str | None = option(
        "topic", None, _topic, "a topic's name", "The topic for all rows; it wins over a column named topic."
    )
