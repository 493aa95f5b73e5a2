"""Runs the application's deserializers over records that are about to be handed over.

Caller's thread, inside poll().  What a deserializer refuses goes to bad_records.py.
"""

from __future__ import annotations

from typing import Any

from pykafka2.consumer.bad_records import BadRecords
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.errors import SerializationError
from pykafka2.foreign_text import brief
from pykafka2.serializers import deserialize_function
from pykafka2.types import BadRecord, ConsumerRecord


class Deserializing:
    """Keys and values from bytes to what the application wants."""

    def __init__(self, options: ConsumerOptions, bad_records: BadRecords) -> None:
        self._key_of = deserialize_function(options.key_deserializer, "key_deserializer")
        self._value_of = deserialize_function(options.value_deserializer, "value_deserializer")
        self._bad_records = bad_records
        self.refused_at: int | None = None
        """The offset of the record that was last raised for."""

    def run(self, records: list[ConsumerRecord[Any, Any]], start: int) -> None:
        """Deserialize the records from index `start` on; those that are passed over are taken out.

        Raises:
            SerializationError: a record may not be passed over; those before it stay, the rest is taken out.
        """
        if self._key_of is None and self._value_of is None:
            return
        while (start := self._run_to_failure(records, start)) < len(records):
            del records[start]

    def _run_to_failure(self, records: list[ConsumerRecord[Any, Any]], start: int) -> int:
        """The index of the next record that is to be passed over, or how many there are."""
        key_of, value_of = self._key_of, self._value_of
        what, key = "key", None
        for index in range(start, len(records)):
            record = records[index]
            try:
                if key_of is not None and (key := record.key) is not None:
                    what = "key"
                    record.key = key_of(record.topic, record.headers, key)
                if value_of is not None and record.value is not None:
                    what = "value"
                    record.value = value_of(record.topic, record.headers, record.value)
            except Exception as error:
                try:
                    self._pass_over(record, key if key_of is not None else record.key, what, error)
                except SerializationError:
                    self.refused_at = record.offset
                    del records[index:]
                    raise
                return index
        return len(records)

    def _pass_over(
        self, record: ConsumerRecord[Any, Any], key: bytes | None, what: str, error: Exception
    ) -> None:
        where = f"{record.topic}-{record.partition} at offset {record.offset}"
        more = "; to skip the record, seek past it, or give on_bad_record" if self._bad_records.raises else ""
        failure = SerializationError(f"{where}: the {what}_deserializer failed: {brief(error)}{more}")
        failure.__cause__ = error
        self._bad_records.pass_over(
            BadRecord(
                record.topic,
                record.partition,
                record.offset,
                record.offset + 1,
                failure,
                timestamp=record.timestamp,
                key=key,
                value=record.value,
                headers=record.headers,
            )
        )
