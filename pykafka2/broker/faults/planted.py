"""Rules that tests have planted, numbered from 1: those in force, and those that were.

Fault rules (engine.py) and throttles (throttle.py) keep theirs here.  Under the cluster's lock.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from pykafka2.errors import ConfigurationError

MAX_PLANTED = 1000


class Numbered(Protocol):
    """What is planted; its id is given to it here."""

    id: int


Rule = TypeVar("Rule", bound=Numbered)


class Planted(Generic[Rule]):
    """The rules of one kind; `kind` and `listed_by` are the words of errors."""

    def __init__(self, kind: str, listed_by: str) -> None:
        self.active: list[Rule] = []
        """Those that may fire yet."""
        self.all: list[Rule] = []
        """Those planted since the last `clear`, spent ones included; the oldest go first."""
        self._kind = kind
        self._listed_by = listed_by
        self._count = 0

    def add(self, rule: Rule) -> Rule:
        """Number a rule and put it in force.  Raises `ConfigurationError` for one that was planted before."""
        if any(rule is known for known in self.all):
            raise ConfigurationError(f"{self._kind} {rule.id} is planted; make another one")
        self._count += 1
        rule.id = self._count
        self.active.append(rule)
        self.all.append(rule)
        del self.all[:-MAX_PLANTED]
        return rule

    def retire(self, rule: Rule) -> None:
        """It fires no more.  Safe to repeat."""
        self.active = [known for known in self.active if known is not rule]

    def find(self, rule_id: int) -> Rule:
        """By its id.  Raises `ConfigurationError`."""
        for rule in self.all:
            if rule.id == rule_id:
                return rule
        raise ConfigurationError(f"no {self._kind} has the id {rule_id}; see {self._listed_by}()")

    def forget_numbers(self) -> None:
        """Number from 1 again, unless some are planted."""
        if not self.all:
            self._count = 0

    def clear(self) -> None:
        """Take all back."""
        self.active.clear()
        self.all.clear()
