"""Records that are gone: an error, or a warning with `failOnDataLoss=false`."""

from __future__ import annotations

import logging

from spark_connector.errors import DataLoss

logger = logging.getLogger(__name__)


def tell(what: str, *, fails: bool) -> None:
    """Raises `DataLoss` if it `fails`."""
    if fails:
        raise DataLoss(
            f"{what}. Some data may have been missed; with failOnDataLoss=false the query goes on with "
            "what is left"
        )
    logger.warning("%s; failOnDataLoss is false, so the query goes on", what)
