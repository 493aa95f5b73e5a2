"""`exactly_once_batches`: exactly-once delivery for `foreachBatch`.

Spark does not support output mode update for data sources in Python.  foreachBatch does, and can write a
batch to several topics.  Runs on the driver, in the user's process (with Spark Connect, in a helper process
of the server).
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pykafka2.errors import ConfigurationError
from spark_connector.options.sink_options import AT_LEAST_ONCE, EXACTLY_ONCE, SinkOptions
from spark_connector.sink.context import Epoch
from spark_connector.sink.exactly_once import protocol as scripts
from spark_connector.sink.exactly_once.ledger_state import Phase, checks_of
from spark_connector.sink.exactly_once.runner import Cluster
from spark_connector.sink.preflight import check_schema, sink_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)

FORMAT = "pykafka2"


class ExactlyOnceBatches:
    """Writes the batches of one streaming query; called by foreachBatch.  Created by
    `exactly_once_batches`.
    """

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        self.name = name
        self._user_options = dict(options)
        self._run = _new_run()
        self._options = self._read(0)

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        """Write a batch, unless the ledger records it as written.

        Raises:
            WrongSchema: the sink cannot write such rows.
            SupersededRun: another process now writes under the same name.
            CheckpointBehind: later batches are written, or another batch under this number.
        """
        check_schema(df.schema, self._options.topic)
        epoch = Epoch(self.name, self._run, batch_id)
        script = scripts.enter(epoch, 0, checks_of(self._options), recovers=True)
        entry = Cluster(self._options, self.name).perform(script)
        if entry.is_written and entry.state.phase is not Phase.REDO:
            # The tasks still read the rows, for Spark's aggregations and to compare them with the ledger.
            logger.info("Batch %d of %r is already committed; comparing its rows", batch_id, self.name)
        writer = df.write.format(FORMAT).options(**self._user_options, **self._epoch_options(batch_id))
        try:
            writer.mode("append").save()
        except BaseException:
            # Tasks may have committed parts of the batch, and the next call can split it in another way.  It
            # must find them, as a stream does that is started again.
            self._run = _new_run()
            raise

    def _read(self, batch_id: int) -> SinkOptions:
        return sink_options({**self._user_options, **self._epoch_options(batch_id)}, streaming=False)

    def _epoch_options(self, batch_id: int) -> dict[str, str]:
        return {"epoch.sink": self.name, "epoch.batch": str(batch_id), "epoch.run": self._run}

    def __repr__(self) -> str:
        return f"<ExactlyOnceBatches {self.name!r} to {self._options.topic or 'topics of a column'}>"


def _new_run() -> str:
    return f"batches-{uuid.uuid4().hex}"


def exactly_once_batches(name: str, **options: Any) -> ExactlyOnceBatches:
    """Return a function for foreachBatch that writes each batch exactly once, in any output mode.

        totals.writeStream.outputMode("update").foreachBatch(
            exactly_once_batches("totals", topic="totals", **{"kafka.bootstrap.servers": servers})
        )

    Args:
            name: of these batches in the ledger.  It belongs to the query's checkpoint: keep it after a
            restart,
                change it with a new checkpoint, and use a different name for each sink of a query.
            options: of the sink; `delivery` is exactly_once or exactly_once_per_task.

    Raises:
            ConfigurationError, UnknownOption: as the sink; also for delivery=at_least_once, which does not
            need
            this function.
    """
    user_options = {key: str(value) for key, value in options.items()}
    lowered = {key.lower(): key for key in user_options}
    delivery = user_options.pop(lowered.get("delivery", ""), EXACTLY_ONCE)
    if delivery.strip().lower() == AT_LEAST_ONCE:
        raise ConfigurationError(
            f"delivery={AT_LEAST_ONCE} is not supported here. Use df.write.format('{FORMAT}') in "
            "foreachBatch."
        )
    return ExactlyOnceBatches(name, {**user_options, "delivery": delivery})
