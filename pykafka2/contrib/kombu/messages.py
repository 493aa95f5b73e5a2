"""Messages that a channel has delivered, until they are acknowledged."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from kombu.transport import virtual

from pykafka2.contrib.kombu.readers import QueueMessage
from pykafka2.contrib.kombu.transients import TransientMessage
from pykafka2.errors import IllegalState
from pykafka2.interrupts import run_all


class ReceivedMessage(virtual.Message):
    """A message with the means to acknowledge it."""

    def __init__(self, payload: dict[str, Any], channel: Any = None, **kwargs: Any) -> None:
        self.item: QueueMessage | TransientMessage = payload["item"]
        super().__init__(payload, channel=channel, **kwargs)


class Unacknowledged(virtual.QoS):
    """The messages that a channel has delivered and that are not acknowledged. Any thread acknowledges."""

    def __init__(self, channel: Any, prefetch_count: int = 0) -> None:
        # Not the base's, which restores messages as the process ends: the consumers release them then.
        self.channel = channel
        self.prefetch_count = prefetch_count
        self._delivered: OrderedDict[str, ReceivedMessage] = OrderedDict()

    def can_consume(self) -> bool:
        return not self.prefetch_count or len(self._delivered) < self.prefetch_count

    def can_consume_max_estimate(self) -> int | None:
        return max(self.prefetch_count - len(self._delivered), 0) if self.prefetch_count else None

    def append(self, message: ReceivedMessage, delivery_tag: str) -> None:
        self._delivered[delivery_tag] = message

    def ack(self, delivery_tag: str) -> None:
        message = self._take(delivery_tag)
        if message is not None:
            message.item.accept()
            self.channel.on_room()

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        message = self._take(delivery_tag)
        if message is None:
            return
        try:
            if requeue:
                message.item.release()
            else:
                message.item.reject()
        except BaseException:  # its copy could not be sent: it can be requeued again
            self._delivered[delivery_tag] = message
            raise
        self.channel.on_room()

    def tags_until(self, delivery_tag: str) -> list[str]:
        """Return the tags of all messages up to this one that are not acknowledged, in order of delivery."""
        tags = [*self._delivered]
        return tags[: tags.index(delivery_tag) + 1] if delivery_tag in tags else []

    def _take(self, delivery_tag: str) -> ReceivedMessage | None:
        """Return a message; None for one of a consumer without acknowledgements, as it is accepted."""
        message = self._delivered.pop(delivery_tag, None)
        if message is not None:
            return message
        if self.channel.closed:
            raise IllegalState("the message was released when its channel was closed")
        return None

    def restore_unacked(self) -> list[Any]:
        """Release all messages that are not acknowledged."""
        taken = [self._delivered.pop(tag, None) for tag in reversed([*self._delivered])]
        try:
            run_all([message.item.release for message in taken if message is not None])
        finally:
            self.channel.on_room()
        return []

    def restore_unacked_once(self, stderr: Any = None) -> None:
        self.restore_unacked()
