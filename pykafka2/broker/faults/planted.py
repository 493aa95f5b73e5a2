"""Numbered rules of a test: active ones and former ones.

Used for fault rules (engine.py) and throttles (throttle.py). Access requires the cluster's lock.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from pykafka2.errors import ConfigurationError

MAX_PLANTED = 1000


class Numbered(Protocol):
    """A rule, whose id is assigned here."""

    id: int


Rule = TypeVar("Rule", bound=Numbered)


class Planted(Generic[Rule]):
    """The rules of one kind; `kind` and `listed_by` are used in errors."""

    def __init__(self, kind: str, listed_by: str) -> None:
        self.active: list[Rule] = []
        """Rules that can still fire."""
        self.all: list[Rule] = []
        """Rules added since the last `clear`, including spent ones; the oldest are dropped first."""
        self._kind = kind
        self._listed_by = listed_by
        self._count = 0

    def add(self, rule: Rule) -> Rule:
        """Number and activate a rule. Raise `ConfigurationError` if it was added before."""
        if any(rule is known for known in self.all):
            raise ConfigurationError(f"{self._kind} {rule.id} was added already; create another one")
        self._count += 1
        rule.id = self._count
        self.active.append(rule)
        self.all.append(rule)
        del self.all[:-MAX_PLANTED]
        return rule

    def retire(self, rule: Rule) -> None:
        """Deactivate a rule. Can be called repeatedly."""
        self.active = [known for known in self.active if known is not rule]

    def find(self, rule_id: int) -> Rule:
        """Return the rule with an id. Raise `ConfigurationError` if there is none."""
        for rule in self.all:
            if rule.id == rule_id:
                return rule
        raise ConfigurationError(f"no {self._kind} has the id {rule_id}; see {self._listed_by}()")

    def forget_numbers(self) -> None:
        """Restart numbering from 1, unless there are rules."""
        if not self.all:
            self._count = 0

    def clear(self) -> None:
        """Remove all rules."""
        self.active.clear()
        self.all.clear()
