"""Events for the records of coordinators: groups' generations, transactions' states.

Only durable state becomes an event; joining members are visible in the requests. Called for each append to an
internal topic, under the cluster's lock. Offset commits are not included.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pykafka2.broker.coordinators.routing import TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from pykafka2.broker.coordinators.replay import Record
    from pykafka2.broker.observed.event_log import EventLog
    from pykafka2.protocol.struct import RecordKey, RecordValue

# The first two bytes of a record's key.
GROUP, CONSUMER_GROUP, TARGET_ASSIGNMENT = b"\x00\x02", b"\x00\x03", b"\x00\x06"
LOGGED_KINDS = (GROUP, CONSUMER_GROUP, TARGET_ASSIGNMENT)


def note_records(events: EventLog, topic: str, records: Iterable[Record], now: float) -> None:
    """Record events for records about the state of a group or a transaction."""
    for record in records:
        if topic == TRANSACTIONS_TOPIC:
            _note_transaction(events, record, now)
        elif record.key[:2] in LOGGED_KINDS:
            _note_group(events, record, now)


def _note_group(events: EventLog, record: Record, now: float) -> None:
    from pykafka2.protocol.messages import consumer_group_records as consumer
    from pykafka2.protocol.messages import group_records as classic

    kinds: dict[bytes, tuple[type[RecordKey], type[RecordValue]]] = {
        GROUP: (classic.GroupMetadataKey, classic.GroupMetadataValue),
        CONSUMER_GROUP: (consumer.ConsumerGroupMetadataKey, consumer.ConsumerGroupMetadataValue),
        TARGET_ASSIGNMENT: (
            consumer.ConsumerGroupTargetAssignmentMetadataKey,
            consumer.ConsumerGroupTargetAssignmentMetadataValue,
        ),
    }
    key, value = _decoded(record, kinds[record.key[:2]])
    name = str(getattr(key, "group", "") or getattr(key, "group_id", ""))
    if isinstance(value, classic.GroupMetadataValue):
        state = "Stable" if value.members else "Empty"
        text = f"{name} is {state}, generation {value.generation}, {len(value.members)} members"
        events.note(
            now, "group", text, group=name, state=state, epoch=value.generation, members=len(value.members)
        )
    elif isinstance(value, consumer.ConsumerGroupMetadataValue):
        events.note(now, "group", f"{name} has epoch {value.epoch}", group=name, epoch=value.epoch)
    elif isinstance(value, consumer.ConsumerGroupTargetAssignmentMetadataValue):
        text = f"{name} has a target assignment of epoch {value.assignment_epoch}"
        events.note(now, "group", text, group=name, assignment_epoch=value.assignment_epoch)
    elif record.key[:2] != TARGET_ASSIGNMENT:
        events.note(now, "group", f"{name} was removed", group=name, state="Dead")


def _note_transaction(events: EventLog, record: Record, now: float) -> None:
    from pykafka2.broker.coordinators.transactions.state import STATES
    from pykafka2.protocol.messages.transaction_records import TransactionLogKey, TransactionLogValue

    key, value = _decoded(record, (TransactionLogKey, TransactionLogValue))
    name: str = getattr(key, "transactional_id", "")
    if not isinstance(value, TransactionLogValue):
        events.note(now, "transaction", f"{name} was removed", transactional_id=name, state="Dead")
        return
    state = STATES[value.transaction_status].value
    text = f"{name} is {state}, producer {value.producer_id} epoch {value.producer_epoch}"
    events.note(
        now,
        "transaction",
        text,
        transactional_id=name,
        state=state,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
    )


def _decoded(
    record: Record, classes: tuple[type[RecordKey], type[RecordValue]]
) -> tuple[RecordKey | None, RecordValue | None]:
    from pykafka2.broker.coordinators.replay import decode_record

    return decode_record({int.from_bytes(record.key[:2], "big"): classes}, record.key, record.value) or (
        None,
        None,
    )
