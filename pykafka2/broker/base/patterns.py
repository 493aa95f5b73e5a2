"""Regular expressions from requests: subscriptions of KIP-848, ListTransactions.

Apache Kafka uses RE2/J, which takes linear time.  Python's `re` takes exponential time for some patterns,
and a handler runs under the cluster's lock.  So a pattern becomes an automaton without backtracking
(Thompson's construction); the sets of nodes that a text reaches are remembered, so that usual patterns take
one look-up per character.  New sets cost steps, which are limited for all texts together.
"""

from __future__ import annotations

from typing import Final

import attrs

from pykafka2.broker.base import re2_syntax
from pykafka2.broker.base.re2_syntax import Assertion, Characters, Choice, Part, Repeat, Sequence
from pykafka2.errors import InvalidRegularExpression

MAX_LENGTH: Final = 1000
MAX_STEPS: Final = 100_000
"""Maximum steps of a request: 0.05 seconds on a machine of 2026.  A usual pattern takes some thousand."""

_MIN_STEPS: Final = 10_000
"""The steps that each pattern of a request has, however many there are: enough for a usual one."""

_STEPS_OF_A_STATE: Final = 10
"""The cost of a new state, however few nodes it has."""

_START, _LINE_END, _WORD, _OTHER = range(4)
"""The properties of the previous character that an assertion can depend on."""


@attrs.define
class Steps:
    """The steps that the patterns of one request can still take."""

    left: int = MAX_STEPS

    def take(self, count: int, pattern: str) -> None:
        self.left -= count
        if self.left < 0:
            raise InvalidRegularExpression(
                f"{pattern!r} takes more than {MAX_STEPS} steps to match; use fewer or smaller repetitions"
            )


def steps_for_each(patterns: int) -> int:
    """Return the steps of each pattern of a request, so that a slow one leaves enough for the others."""
    return max(MAX_STEPS // max(patterns, 1), _MIN_STEPS)


def compile_pattern(text: str, steps: Steps | None = None) -> Pattern:
    """Compile a pattern; its matching takes from the same steps.

    Raises:
        InvalidRegularExpression: RE2 rejects the pattern, it is too long, or it takes too many steps.
    """
    if len(text) > MAX_LENGTH:
        raise InvalidRegularExpression(f"the pattern has {len(text)} characters; the limit is {MAX_LENGTH}")
    try:
        tree = re2_syntax.parse(text)
    except re2_syntax.SyntaxProblem as problem:
        raise InvalidRegularExpression(
            f"{text!r} is not a valid regular expression of RE2: it has {problem}"
        ) from None
    return Pattern(text, tree, steps or Steps())


@attrs.define(eq=False)
class _State:
    """The nodes that a text can be at, and which state follows for each character seen so far."""

    nodes: tuple[int, ...]
    before: int
    edges: dict[str, _State] = attrs.Factory(dict)
    matches: bool | None = None
    """Whether a text that ends here matches, if that has been computed."""


class Pattern:
    """A compiled pattern that matches whole texts."""

    def __init__(self, text: str, tree: Part, steps: Steps) -> None:
        self._text = text
        self._steps = steps
        # Node n tests a character or a position; None only leads on.  Node 0 is the end.
        self._tests: list[Characters | Assertion | None] = [None]
        self._after: list[tuple[int, ...]] = [()]
        first = self._add_part(tree, 0)
        self._has_assertions = any(isinstance(test, Assertion) for test in self._tests)
        self._states: dict[tuple[tuple[int, ...], int], _State] = {}
        self._first = self._state((first,), _START)

    def fullmatch(self, text: str) -> bool:
        """Return whether the whole text matches. Raise `InvalidRegularExpression` after too many steps."""
        state = self._first
        for char in text:
            following = state.edges.get(char)
            if following is None:
                following = state.edges[char] = self._following(state, char)
            if not following.nodes:
                return False
            state = following
        if state.matches is None:
            state.matches = 0 in self._reached(state, "")
        return state.matches

    # -- building --------------------------------------------------------------------------------------

    def _add(self, test: Characters | Assertion | None, after: tuple[int, ...]) -> int:
        self._tests.append(test)
        self._after.append(after)
        return len(self._tests) - 1

    def _add_part(self, part: Part, after: int) -> int:
        """Add the nodes of a part that leads to the node `after`. Return its first node."""
        self._steps.take(1, self._text)
        if isinstance(part, Sequence):
            for one in reversed(part.parts):
                after = self._add_part(one, after)
            return after
        if isinstance(part, Choice):
            return self._add(None, tuple([self._add_part(one, after) for one in part.parts]))
        if isinstance(part, Repeat):
            return self._add_repeat(part, after)
        return self._add(part, (after,))

    def _add_repeat(self, repeat: Repeat, after: int) -> int:
        if repeat.high is None:
            loop = self._add(None, ())
            self._after[loop] = (self._add_part(repeat.part, loop), after)
            first = loop
        else:
            first = after
            for _ in range(repeat.high - repeat.low):
                first = self._add(None, (self._add_part(repeat.part, first), after))
        for _ in range(repeat.low):
            first = self._add_part(repeat.part, first)
        return first

    # -- matching --------------------------------------------------------------------------------------

    def _following(self, state: _State, char: str) -> _State:
        tests, after = self._tests, self._after
        nodes: set[int] = set()
        for node in self._reached(state, char):
            test = tests[node]
            if isinstance(test, Characters) and test.has(char):
                nodes.update(after[node])
        return self._state(tuple(sorted(nodes)), _kind(char) if self._has_assertions else _OTHER)

    def _reached(self, state: _State, following: str) -> set[int]:
        """Return all nodes that are reached without a character, before the one that follows."""
        reached = set(state.nodes)
        waiting = list(state.nodes)
        while waiting:
            node = waiting.pop()
            test = self._tests[node]
            if test is None or (isinstance(test, Assertion) and _holds(test, state.before, following)):
                new = [one for one in self._after[node] if one not in reached]
                reached.update(new)
                waiting.extend(new)
        self._steps.take(len(reached) + _STEPS_OF_A_STATE, self._text)
        return reached

    def _state(self, nodes: tuple[int, ...], before: int) -> _State:
        return self._states.setdefault((nodes, before), _State(nodes, before))


def _kind(char: str) -> int:
    return _WORD if re2_syntax.is_word(char) else _LINE_END if char == "\n" else _OTHER


def _holds(assertion: Assertion, before: int, following: str) -> bool:
    """Return whether an assertion holds between two kinds of characters; the next is empty at the end."""
    if assertion is Assertion.BEGIN_TEXT:
        return before == _START
    if assertion is Assertion.END_TEXT:
        return not following
    if assertion is Assertion.BEGIN_LINE:
        return before in (_START, _LINE_END)
    if assertion is Assertion.END_LINE:
        return following in ("", "\n")
    is_boundary = (before == _WORD) != (following != "" and re2_syntax.is_word(following))
    return is_boundary == (assertion is Assertion.WORD_BOUNDARY)
