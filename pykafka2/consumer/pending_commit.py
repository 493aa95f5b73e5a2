"""One commit on its way: what is to be written, by whom, and until when.

A passive value; made on the caller's thread (committer.py), from then on the driver's (commits.py).
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pykafka2.backoff import Backoff
from pykafka2.clock import FOREVER
from pykafka2.consumer.group_identity import GroupIdentity
from pykafka2.consumer.topic_ids import NO_IDS, TopicIds
from pykafka2.driver.completion import Completion
from pykafka2.driver.pollable import Send
from pykafka2.errors import KafkaError
from pykafka2.protocol.messages.committed_offsets import OffsetCommitResponse
from pykafka2.types import OffsetAndMetadata, TopicPartition

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


@attrs.define(eq=False)
class Commit:
    """Offsets that are to be written, by whom, and until when.

    `completion` ends with None once they are written, or with the error; whether it is to be tried again
    (until `deadline`) says `is_retried`.  `refusal` is known before it is sent, and told when its turn comes.
    """

    offsets: Offsets
    identity: GroupIdentity
    completion: Completion[None]
    deadline: float
    timeout: float
    """Seconds from the beginning to the deadline, for the words of an error."""
    backoff: Backoff
    is_retried: bool = False
    refusal: KafkaError | None = None
    is_last: bool = False
    """Others wait until its partitions are given away: its connection ends with its time."""
    ids: TopicIds = NO_IDS
    """Of the topics, as of when they were first known to it: it is for no others of the same names."""
    send: Send[OffsetCommitResponse] | None = None
    retry_at: float = -FOREVER
    last_error: KafkaError | None = None

    @property
    def has_left(self) -> bool:
        """Whether its request is with the transport, or on the way there over a connection that stands."""
        return self.send is not None and self.send.sent_at is not None
