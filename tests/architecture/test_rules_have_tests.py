"""Each of the 93 rules that a faithful double must follow has a test that is named after its number.

The rules are those of the research note that the broker was built from (its section 4: connection 1-13,
produce 14-29, idempotence 30-36, transactions 37-50, fetch 51-64, replication and controller 65-75, groups
76-87, log, security and machinery 88-93).
"""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
NAMED = re.compile(r"^(?:async )?def test_rule_(\d+)_\w+", re.MULTILINE)
RULES = range(1, 94)

LEFT = {
    12: "failed authentication: SASL is step 7's",
    13: "re-authentication (KIP-368): SASL is step 7's",
    89: "compaction: the log cleaner comes with step 7's logs on disk",
    90: "recovery from checkpoints: step 7's logs on disk",
    91: "ACLs: step 7's",
}
"""Rules of a later step, and why; of rule 11 only the refusal of SASL is built."""


def named_by_rule() -> dict[int, list[str]]:
    """The names of the tests of each rule."""
    found: dict[int, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for match in NAMED.finditer(path.read_text(encoding="utf-8")):
            found.setdefault(int(match[1]), []).append(match[0].removeprefix("def "))
    return found


def test_every_rule_has_a_test_or_a_reason() -> None:
    assert [rule for rule in RULES if rule not in named_by_rule() and rule not in LEFT] == []


def test_no_test_is_named_after_a_rule_that_is_not_there() -> None:
    assert named_by_rule().keys() - set(RULES) == set()


def test_no_rule_is_left_that_has_tests() -> None:
    """Who builds one of them takes it off the list."""
    assert LEFT.keys() & named_by_rule().keys() == set()
