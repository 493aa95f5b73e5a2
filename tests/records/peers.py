"""kafka-python's and aiokafka's record classes; importing kafka-python warns of what it uses itself."""

from __future__ import annotations

import warnings
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
    from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
    from kafka.record.legacy_records import LegacyRecordBatchBuilder as KafkaPythonLegacyBuilder
    from kafka.record.memory_records import MemoryRecords as KafkaPythonRecords

READERS: dict[str, Any] = {"kafka-python": KafkaPythonRecords, "aiokafka": AiokafkaRecords}
BUILDERS: dict[str, Any] = {"kafka-python": KafkaPythonBuilder, "aiokafka": AiokafkaBuilder}
LEGACY_BUILDER: Any = KafkaPythonLegacyBuilder
