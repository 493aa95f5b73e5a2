"""Each error class has advice for the page of errors; test_option_pages.py compares the page."""

from __future__ import annotations

import re
from itertools import chain

import pytest

import pykafka2.errors
import spark_connector.errors
from pykafka2.errors import KafkaError
from tests.docs.error_page import errors_of

ERRORS = [*chain(errors_of(pykafka2.errors), errors_of(spark_connector.errors))]


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
