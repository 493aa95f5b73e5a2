"""Patterns from clients (subscriptions of KIP-848, ListTransactions): Python's `re` with limits.

Apache uses RE2, which matches in linear time. Python's `re` can take exponential time, and runs here under
the cluster's lock. So features that RE2 lacks are rejected (back references, lookahead and lookbehind), and
so are patterns with too many possible paths. Pure functions.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from importlib import import_module
from typing import Any, Final

from pykafka2.errors import InvalidRegularExpression

MAX_LENGTH: Final = 1000

LONGEST_NAME: Final = 250
"""Maximum length of the matched text: topics and transactional ids are rarely longer."""

MAX_WAYS: Final = LONGEST_NAME**3 * 64
"""Three parts such as `.*` in a row, and some alternatives: one second at worst."""

_REPEATS: Final = frozenset({"MAX_REPEAT", "MIN_REPEAT"})
_PLAIN: Final = frozenset({"LITERAL", "NOT_LITERAL", "ANY", "IN", "AT", "CATEGORY", "RANGE"})


def compile_pattern(text: str) -> re.Pattern[str]:
    """Compiles a pattern.

    Raises:
        InvalidRegularExpression: it is invalid, uses features that RE2 lacks, or could take too long.
    """
    if len(text) > MAX_LENGTH:
        raise InvalidRegularExpression(f"the pattern has {len(text)} characters; the limit is {MAX_LENGTH}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the client's pattern can be suspicious to Python
            pattern = re.compile(text)
            # The parser's tree is not public, but there is no other way to inspect a pattern before it runs.
            tree = import_module("re._parser").parse(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidRegularExpression(f"{text!r} is not a valid regular expression: {error}") from None
    if _ways(tree, text) > MAX_WAYS:
        raise InvalidRegularExpression(f"{text!r} could take too long: it has too many repeated parts")
    return pattern


def _ways(tree: Iterable[Any], text: str) -> int:
    """Returns an upper bound of the paths of a part through a text."""
    ways = 1
    for operator, argument in tree:
        name = str(operator)
        if name in _PLAIN:
            continue
        if name == "SUBPATTERN":
            ways *= _ways(argument[3], text)
        elif name == "BRANCH":
            ways *= sum(_ways(branch, text) for branch in argument[1])
        elif name in _REPEATS:
            low, high, part = argument
            inner = _ways(part, text)
            if inner > 1 and high > 1:
                # (a+)+ and the like: every character could match either way.
                raise InvalidRegularExpression(f"{text!r} repeats a part that varies by itself")
            ways *= inner * min(int(high) - int(low) + 1, LONGEST_NAME)
        else:
            raise InvalidRegularExpression(f"{text!r} uses a feature that RE2 lacks: {name.lower()}")
        if ways > MAX_WAYS:
            break
    return ways
