"""Reports lost records: an error, or a warning with `failOnDataLoss=false`."""

from __future__ import annotations

import logging

from spark_connector.errors import DataLoss

logger = logging.getLogger(__name__)


def report_loss(what: str, *, fails: bool) -> None:
    """Raise `DataLoss` if it `fails`, otherwise log a warning."""
    if fails:
        raise DataLoss(
            f"{what}. Some data may have been missed. Set failOnDataLoss=false to continue with the "
            "remaining records."
        )
    logger.warning("Records were lost, the query continues because failOnDataLoss is false: %s", what)
