"""The bundled broker answers as Apache Kafka 4.4.0 does, field by field; see the package `behaviour`.

Differences that are meant are in behaviour/known.py, each with a row of docs/fidelity.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from .behaviour.compare import differences
from .behaviour.golden import Addresses, addresses_of, bundled_for, is_about_access, recorded, transcript
from .behaviour.known import KNOWN, Known
from .behaviour.older_releases import KNOWN_OF
from .behaviour.scenarios import SCENARIOS
from .real_kafka import RealKafka
from .world.known import KNOWN as JAVA_KNOWN

FIDELITY = Path(__file__).parents[2] / "docs" / "fidelity.md"


# They take more than a second on Apache Kafka, by waiting; the gate trusts what was recorded of them.
WAIT_ON_APACHE = {
    "configs_altered",
    "consumer_group_of_two",
    "delete_records",
    "fetch_bounds",
    "leader_changes_under_a_fetch",
    "leader_elsewhere",
    "leader_epochs_of_a_log",
    "old_versions_of_records",
    "options_at_work",
    "produce_recompressed",
    "produce_refuses",
    "produce_timestamps",
}

# The Apache Kafka of a session has an authorizer; `python -m tests.conformance.behaviour --real` asks one
# that has none.
WITHOUT_AUTHORIZER = "acls_without_an_authorizer"

# Reading on while an acks=all produce waits can show only where records are produced, or clients deal with
# connections; of the rest, and of what is refused before it is appended, the serial mode is enough.
NEVER_PRODUCE = (
    "access",
    "group",
    "consumer_group",
    "rebalance",
    "configs",
    "old_versions_of_configs",
    "features",
)
CASES = [
    pytest.param(mode, scenario, id=f"{mode}-{scenario}")
    for mode in ("serial", "pipelined")
    for scenario in SCENARIOS
    if mode == "serial" or not scenario.startswith(NEVER_PRODUCE)
]


@pytest.fixture(scope="module")
def addresses_for() -> Iterator[Callable[[str, str], Addresses]]:
    """Three bundled brokers that are set as real_kafka.py sets Apache's, for each way of muting: Apache's
    (serial), and our own; and such with an authorizer.
    """
    with ExitStack() as clusters:

        @cache
        def started(mode: str, about_access: bool) -> Addresses:
            kind = "access_" if about_access else ""
            return addresses_of(clusters.enter_context(bundled_for(kind, mode)), kind)

        yield lambda scenario, mode: started(mode, is_about_access(scenario))


@pytest.fixture(scope="module")
def came_up() -> set[Known]:
    """The known differences that the scenarios so far came upon."""
    return set()


@pytest.mark.parametrize(("mode", "scenario"), CASES)
def test_bundled_broker_responds_like_apache_kafka(
    addresses_for: Callable[[str, str], Addresses], came_up: set[Known], mode: str, scenario: str
) -> None:
    strange = []
    for one in differences(scenario, recorded(scenario), transcript(scenario, addresses_for(scenario, mode))):
        known = one.known()
        if known is None:
            strange.append(one)
        else:
            came_up.add(known)
    assert not strange, f"{len(strange)} fields differ; the first:\n{strange[0]}"


def test_every_known_difference_is_still_there(came_up: set[Known], request: pytest.FixtureRequest) -> None:
    """So that a mended one leaves the table.  Runs after the scenarios, if all of them ran."""
    ran = sum("broker_responds_like_apache_kafka" in item.name for item in request.session.items)
    if ran < len(CASES):
        pytest.skip("only some of the scenarios ran")
    assert [one for one in KNOWN if one not in came_up] == []


def test_every_known_difference_has_its_row_in_the_docs() -> None:
    rows = [line for line in FIDELITY.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    missing = {
        one.row
        for one in (*KNOWN, *JAVA_KNOWN, *chain.from_iterable(KNOWN_OF.values()))
        if not any(row.startswith(f"| {one.row}") for row in rows)
    }
    assert missing == set()


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(name, marks=[pytest.mark.long] if name in WAIT_ON_APACHE else [])
        for name in SCENARIOS
        if name != WITHOUT_AUTHORIZER
    ],
)
def test_apache_kafka_responds_as_recorded(real_kafka: RealKafka, scenario: str) -> None:
    _ = real_kafka.bootstrap_servers
    addresses = real_kafka.addresses, real_kafka.sasl_addresses
    strange = differences(scenario, recorded(scenario), transcript(scenario, addresses))
    assert not strange, f"{len(strange)} fields differ; the first:\n{strange[0]}"
