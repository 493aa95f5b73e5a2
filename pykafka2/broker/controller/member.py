"""What the controller has to know of a broker, and what it tells it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from pykafka2.broker.base.image import ClusterImage, TopicImage


class Member(Protocol):
    """A broker in the eyes of elections and of the metadata's publisher."""

    @property
    def id(self) -> int: ...

    @property
    def is_running(self) -> bool: ...

    @property
    def is_paused(self) -> bool: ...

    @property
    def image(self) -> ClusterImage:
        """The newest that it was handed."""
        ...

    def apply(self, image: ClusterImage, changed: Mapping[str, TopicImage | None]) -> None:
        """Take over a newer image, with the topics that changed."""
        ...

    def controller_changed(self, now: float) -> None:
        """There is a new controller: whatever the old one has not answered is asked again."""
        ...


Members = Callable[[], Mapping[int, Member]]
"""All brokers of the cluster by id, those that are down included."""


def can_act(member: Member) -> bool:
    """Whether a broker's process runs and is not paused."""
    return member.is_running and not member.is_paused
