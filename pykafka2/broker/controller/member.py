"""The interface between the controller and a broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from pykafka2.broker.base.image import ClusterImage, TopicImage


class Member(Protocol):
    """A broker, as elections and the metadata publisher see it."""

    @property
    def id(self) -> int: ...

    @property
    def is_running(self) -> bool: ...

    @property
    def is_paused(self) -> bool: ...

    @property
    def image(self) -> ClusterImage:
        """The latest image that it received."""
        ...

    def apply(self, image: ClusterImage, changed: Mapping[str, TopicImage | None]) -> None:
        """Apply a newer image, with the topics that changed."""
        ...

    def controller_changed(self, now: float) -> None:
        """Handle a new controller: unanswered requests to the old one are sent again."""
        ...


Members = Callable[[], Mapping[int, Member]]
"""Callback: all brokers of the cluster by id, including stopped ones."""


def can_act(member: Member) -> bool:
    """Return whether a broker's process is running and not paused."""
    return member.is_running and not member.is_paused
