"""The bundled broker answers as Apache Kafka 2.8.2 and 3.9.1 do, field by field, with `as_version`.

Differences that are meant are in behaviour/older_releases.py, each with a row of docs/fidelity.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest

from .behaviour.compare import differences
from .behaviour.golden import Addresses, addresses_of, bundled_for, recorded, transcript
from .behaviour.known import KNOWN, Known
from .behaviour.older_releases import KNOWN_OF, SCENARIOS_OF

CASES = [(release, scenario) for release, scenarios in SCENARIOS_OF.items() for scenario in scenarios]


@pytest.fixture(scope="module")
def addresses_as() -> Iterator[Callable[[str], Addresses]]:
    """Three bundled brokers that respond like an older release."""
    with ExitStack() as clusters:

        @cache
        def started(release: str) -> Addresses:
            return addresses_of(clusters.enter_context(bundled_for("", release=release)), "")

        yield started


@pytest.fixture(scope="module")
def came_up() -> set[Known]:
    """The known differences that the scenarios so far came upon."""
    return set()


@pytest.mark.parametrize(("release", "scenario"), CASES)
def test_bundled_broker_responds_like_an_older_release(
    addresses_as: Callable[[str], Addresses], came_up: set[Known], release: str, scenario: str
) -> None:
    answers = transcript(scenario, addresses_as(release), release)
    strange = []
    for one in differences(scenario, recorded(scenario, release), answers):
        known = one.among((*KNOWN_OF[release], *KNOWN))
        if known is None:
            strange.append(one)
        else:
            came_up.add(known)
    assert not strange, f"{len(strange)} fields differ; the first:\n{strange[0]}"


def test_every_known_difference_of_an_older_release_is_still_there(
    came_up: set[Known], request: pytest.FixtureRequest
) -> None:
    ran = sum("responds_like_an_older_release" in item.name for item in request.session.items)
    if ran < len(CASES):
        pytest.skip("only some of the scenarios ran")
    assert [one for known in KNOWN_OF.values() for one in known if one not in came_up] == []
