"""Valid topic names (Kafka's Topic class). Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from pykafka2.errors import InvalidTopicException

MAX_TOPIC_NAME: Final = 249
METADATA_TOPIC: Final = "__cluster_metadata"
LEGAL_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+\Z")
INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


def check_topic_name(name: str) -> None:
    """Raise `InvalidTopicException` unless the name is legal."""
    if not name:
        raise InvalidTopicException("Topic name is invalid: the empty string is not allowed")
    if name in (".", ".."):
        raise InvalidTopicException(f"Topic name is invalid: '{name}' is not allowed")
    if len(name) > MAX_TOPIC_NAME:
        raise InvalidTopicException(
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed length "
            f"{MAX_TOPIC_NAME}"
        )
    if not LEGAL_TOPIC_NAME.match(name):
        raise InvalidTopicException(
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII "
            "alphanumerics, '.', '_' and '-'"
        )


def collision(name: str, known: Iterable[str]) -> str | None:
    """Return another topic whose metric names would collide: '.' and '_' are equal there."""
    if "." not in name and "_" not in name:
        return None
    plain = name.replace(".", "_")
    return next((other for other in known if other.replace(".", "_") == plain), None)
