"""The bundled broker answers as Apache Kafka 2.8.2, 3.9.1 and 4.3.1 do, field by field, with `as_version`.

Differences that are meant are in behaviour/older_releases.py, each with a row of docs/fidelity.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest

from .behaviour.compare import differences
from .behaviour.golden import (
    Addresses,
    addresses_of,
    bundled_for,
    is_about_access,
    recorded,
    recorded_names,
    transcript,
)
from .behaviour.known import KNOWN, Known
from .behaviour.older_releases import KNOWN_OF, SCENARIOS_OF

# Where 4.3 responds like 4.4, a run of all scenarios as 4.3 is left to `nox -s long`.
CASES = [
    pytest.param(
        release,
        scenario,
        id=f"{release}-{scenario}",
        marks=[] if scenario in recorded_names(release) else [pytest.mark.long],
    )
    for release, scenarios in SCENARIOS_OF.items()
    for scenario in scenarios
]


@pytest.fixture(scope="module")
def addresses_as() -> Iterator[Callable[[str, str], Addresses]]:
    """Three bundled brokers that respond like an older release; and such with an authorizer."""
    with ExitStack() as clusters:

        @cache
        def started(release: str, about_access: bool) -> Addresses:
            kind = "access_" if about_access else ""
            return addresses_of(clusters.enter_context(bundled_for(kind, release=release)), kind)

        yield lambda release, scenario: started(release, is_about_access(scenario))


@pytest.fixture(scope="module")
def came_up() -> set[Known]:
    """The known differences that the scenarios so far came upon."""
    return set()


@pytest.mark.parametrize(("release", "scenario"), CASES)
def test_bundled_broker_responds_like_an_older_release(
    addresses_as: Callable[[str, str], Addresses], came_up: set[Known], release: str, scenario: str
) -> None:
    answers = transcript(scenario, addresses_as(release, scenario), release)
    strange = []
    for one in differences(scenario, recorded(scenario, release), answers):
        known = one.among((*KNOWN_OF[release], *KNOWN))
        if known is None:
            strange.append(one)
        else:
            came_up.add(known)
    assert not strange, f"{len(strange)} fields differ; the first:\n{strange[0]}"


def test_each_file_of_4_3_has_a_response_that_4_4_changed() -> None:
    """So that what 4.3 has alone stays readable; the table in docs/fidelity.md lists it."""
    unchanged = [
        name for name in recorded_names("4.3") if not differences(name, recorded(name), recorded(name, "4.3"))
    ]
    assert unchanged == []


def test_every_known_difference_of_an_older_release_is_still_there(
    came_up: set[Known], request: pytest.FixtureRequest
) -> None:
    ran = sum("responds_like_an_older_release" in item.name for item in request.session.items)
    if ran < sum(not case.marks for case in CASES):
        pytest.skip("only some of the scenarios ran")
    assert [one for known in KNOWN_OF.values() for one in known if one not in came_up] == []
