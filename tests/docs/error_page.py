"""The page of the site that lists the errors with what to do about each, made from the classes.

    python -m tests.docs.error_page

writes it anew after an error has changed; test_error_page.py compares.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

import pykafka2.errors
import spark_connector.errors
from pykafka2.errors import BrokerError, KafkaError

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "errors.md"

HEAD = """\
# Errors

All errors are classes of `pykafka2.errors`, with the base class `KafkaError`. An error with the mark
*retried* is temporary in most cases: the clients retry until the timeout of the call, and raise it only
after that. After an error with the mark *fatal* the client cannot continue: close it and create a new one.
Programs read the same from `error.retriable`, `error.fatal` and `error.what_to_do`.
"""


def errors_of(module: ModuleType) -> Iterator[type[KafkaError]]:
    """The public error classes that the module defines, in its order."""
    for name, found in vars(module).items():
        is_error = inspect.isclass(found) and issubclass(found, KafkaError)
        if is_error and found.__module__ == module.__name__ and not name.startswith("_"):
            yield found


def table(errors: Iterable[type[KafkaError]], *, with_codes: bool = False) -> str:
    """A Markdown table of the errors."""
    head = ["Error", *(["Code"] if with_codes else []), "What happened", "What to do"]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for error in errors:
        marks = [mark for mark, is_so in (("retried", error.retriable), ("fatal", error.fatal)) if is_so]
        name = " ".join([f"`{error.__name__}`", *(f"*{mark}*" for mark in marks)])
        what = " ".join(inspect.cleandoc(error.__doc__ or "").split("\n\n")[0].split())
        code = [str(error.code)] if with_codes else []
        lines.append(f"| {' | '.join([name, *code, what.replace('|', '/'), error.what_to_do])} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The text of the page."""
    every = list(errors_of(pykafka2.errors))
    brokers = [error for error in every if issubclass(error, BrokerError)]
    return "\n".join(
        [
            HEAD,
            "## Errors of the clients\n",
            table(error for error in every if error not in brokers),
            "## Errors of the brokers\n",
            "The code is the number in Kafka's protocol. -1 marks a base class of several codes.\n",
            table(brokers, with_codes=True),
            "## Errors of the Spark connector\n",
            "In `spark_connector.errors`.\n",
            table(errors_of(spark_connector.errors)),
            "## Base class\n",
            "::: pykafka2.errors.KafkaError\n",
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
