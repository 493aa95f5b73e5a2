"""Kafka Streams', Connect's and MirrorMaker's jars, and our application: made once, kept in the cache.

As ../maven.py does for the stage, but apart: only java_world.py needs them.
"""

from __future__ import annotations

import os
from pathlib import Path

import attrs

from ..maven import JAVA_FOLDER, LOG_SETTINGS, KafkaJars, compiled, kafka_jars, made_once, resolved

FOLDER = JAVA_FOLDER / "world"
POM = FOLDER / "pom.xml"
SOURCES = sorted((FOLDER / "src").rglob("*.java"))


@attrs.frozen
class WorldJars:
    """The stage's jars, and what comes on top of them."""

    kafka: KafkaJars
    extra: Path
    classes: Path

    def java(self, main: str, *arguments: str, flags: tuple[str, ...] = ()) -> list[str]:
        """The command line that runs this class."""
        settings = f"-Dlog4j2.configurationFile={LOG_SETTINGS}"
        kept = {jar.name for jar in self.kafka.current.glob("*.jar")}
        # Of a jar that both have, the stage's.
        extra = [str(jar) for jar in sorted(self.extra.glob("*.jar")) if jar.name not in kept]
        path = os.pathsep.join([str(self.classes), self.kafka.class_path(), *extra])
        return ["java", *flags, settings, "-cp", path, main, *arguments]


def world_jars() -> WorldJars:
    """From the cache, or made now (half a minute).  Raises KafkaUnavailable."""
    kafka = kafka_jars()
    extra = made_once("world-jars", [POM], lambda folder: resolved(POM, folder))
    classes = made_once(
        "world-classes",
        [POM, *SOURCES],
        lambda folder: compiled(SOURCES, folder, f"{kafka.current}/*{os.pathsep}{extra}/*"),
    )
    return WorldJars(kafka, extra, classes)
