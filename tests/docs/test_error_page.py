"""The page of errors is made from the classes, and says of each what to do."""

from __future__ import annotations

import re
from itertools import chain

import pytest

import pykafka2.errors
import spark_connector.errors
from pykafka2.errors import KafkaError
from tests.docs.error_page import PAGE, errors_of, page

ERRORS = [*chain(errors_of(pykafka2.errors), errors_of(spark_connector.errors))]


def test_the_page_has_the_errors_of_today() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.docs.error_page"


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_each_error_has_advice_of_one_or_two_sentences(error: type[KafkaError]) -> None:
    assert error.what_to_do.endswith(".")
    assert 1 <= len(re.split(r"[.] ", error.what_to_do)) <= 2


def test_only_retried_errors_and_bases_share_advice() -> None:
    bases = {"KafkaError", "BrokerError", "SparkConnectorError"}
    general = [
        error.__name__
        for error in ERRORS
        if error.what_to_do == KafkaError.what_to_do and error.__name__ not in bases
    ]
    assert general == []
