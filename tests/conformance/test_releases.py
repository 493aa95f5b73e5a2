"""The API versions of older releases are those of the message schemas in their jars."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from pykafka2.broker.base.features import RELEASES, release_of
from pykafka2.protocol.fields import VersionRange

from .maven import JAVA_FOLDER, KafkaUnavailable, made_once, resolved, skip_or_fail
from .schemas import Schema, parsed, schema_names

pytestmark = [pytest.mark.real_kafka, pytest.mark.long]

POM = JAVA_FOLDER / "pom-releases.xml"
LAST_WITH_ZOOKEEPER = "3.2"


@pytest.fixture(scope="module")
def clients() -> dict[str, Path]:
    """The kafka-clients jar of each release."""
    try:
        folder = made_once("releases", [POM], lambda made: resolved(POM, made))
    except KafkaUnavailable as problem:
        skip_or_fail(str(problem))
    jars = folder.glob("kafka-clients-*.jar")
    return {jar.stem.removeprefix("kafka-clients-").rpartition(".")[0]: jar for jar in jars}


def ranges_of(jar: Path, listener: str) -> dict[int, tuple[int, int]]:
    """Return the stable versions by API key that brokers with this kind of listener serve."""
    ranges = {}
    with zipfile.ZipFile(jar) as archive:
        schemas: list[Schema] = [parsed(archive.read(name).decode()) for name in schema_names(archive)]
    for schema in schemas:
        if schema["type"] != "request" or listener not in schema.get("listeners", ()):
            continue
        if schema["validVersions"] == "none":
            continue
        versions = VersionRange.parse(schema["validVersions"])
        high = versions.high - bool(schema.get("latestVersionUnstable"))
        if versions.low <= high:
            ranges[schema["apiKey"]] = versions.low, high
    return ranges


@pytest.mark.parametrize("name", RELEASES)
def test_release_has_the_ranges_of_its_message_schemas(clients: dict[str, Path], name: str) -> None:
    before_kraft = RELEASES.index(name) <= RELEASES.index(LAST_WITH_ZOOKEEPER)
    assert release_of(name).ranges == ranges_of(clients[name], "zkBroker" if before_kraft else "broker")
