"""Patterns that clients send (subscriptions of KIP-848, ListTransactions): Python's `re`, kept within bounds.

Apache uses RE2, whose matching takes time in proportion to the text; Python's may take for ever, and it runs
under the cluster's lock.  So what RE2 has not is refused (references, looking ahead and behind), and so is a
pattern whose ways through a text could be too many.  Pure functions.
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
"""Characters of what is matched: topics and transactional ids are hardly longer."""

MAX_WAYS: Final = LONGEST_NAME**3 * 64
"""Three parts such as `.*` one after another, and some alternatives: a second at the very worst."""

_REPEATS: Final = frozenset({"MAX_REPEAT", "MIN_REPEAT"})
_PLAIN: Final = frozenset({"LITERAL", "NOT_LITERAL", "ANY", "IN", "AT", "CATEGORY", "RANGE"})


def compile_pattern(text: str) -> re.Pattern[str]:
    """The pattern, ready to match.

    Raises:
        InvalidRegularExpression: it is none, has what RE2 has not, or could take too long.
    """
    if len(text) > MAX_LENGTH:
        raise InvalidRegularExpression(f"the pattern has {len(text)} characters; {MAX_LENGTH} may be")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what looks like a mistake to Python is the client's own matter
            pattern = re.compile(text)
            # The parser's tree is not public, but the only way to know a pattern before it runs.
            tree = import_module("re._parser").parse(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidRegularExpression(f"{text!r} is not a valid regular expression: {error}") from None
    if _ways(tree, text) > MAX_WAYS:
        raise InvalidRegularExpression(f"{text!r} could take too long: it has too many repeated parts")
    return pattern


def _ways(tree: Iterable[Any], text: str) -> int:
    """An upper bound of the ways in which a part can go through a text."""
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
                # (a+)+ and its like: every character could go either way.
                raise InvalidRegularExpression(f"{text!r} repeats a part that varies by itself")
            ways *= inner * min(int(high) - int(low) + 1, LONGEST_NAME)
        else:
            raise InvalidRegularExpression(f"{text!r} has what RE2 has not: {name.lower()}")
        if ways > MAX_WAYS:
            break
    return ways
