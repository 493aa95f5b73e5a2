"""The sink's options as Spark hands them over, read and checked before any task starts."""

from __future__ import annotations

from collections.abc import Mapping

from pykafka2.errors import ConfigurationError
from spark_connector.options.kafka_options import for_sink
from spark_connector.options.reading import read_options
from spark_connector.options.sink_options import PER_TASK, SinkOptions, checked
from spark_connector.options.source_options import SourceOptions

NEEDED_TOGETHER = ("epoch.sink", "epoch.batch", "epoch.run")


def sink_options(given: Mapping[str, str], *, streaming: bool) -> SinkOptions:
    """What these options say.

    Raises:
        ConfigurationError, UnknownOption: as `read_options`, or options that contradict each other.
    """
    values, kafka, _ = read_options(SinkOptions, given, elsewhere=SourceOptions, here="sink")
    options = checked(SinkOptions(**values, kafka=for_sink(kafka)))
    epoch = (options.epoch_sink, options.epoch_batch, options.epoch_run)
    present = [one is not None for one in epoch]
    if streaming and any(present):
        raise ConfigurationError(
            "epoch.* is set by exactly_once_batches() alone; a stream has epochs of its own"
        )
    if any(present) and not (all(present) and options.is_transactional):
        raise ConfigurationError(
            f"{', '.join(NEEDED_TOGETHER)} come together and with delivery=exactly_once; "
            "exactly_once_batches() sets them"
        )
    if options.delivery == PER_TASK and not streaming and not any(present):
        raise ConfigurationError(
            f"delivery={PER_TASK} is for streams, whose batches have numbers; a batch write is all or "
            "nothing with delivery=exactly_once"
        )
    return options
