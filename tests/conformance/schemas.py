"""Kafka's message schemas, read from the jars (`common/message`, `common/metadata`), version by version.

A schema is written in version ranges; what bytes look like is a question about one version.  So both Kafka's
schemas and our declarations are turned into the same picture, Shape: the fields of one version in order.
"""

from __future__ import annotations

import json
import re
import zipfile
from functools import cache
from typing import Any

import attrs

from pykafka2.protocol.describe import snake_case
from pykafka2.protocol.fields import VersionRange
from pykafka2.protocol.primitives import ZERO_UUID

from .maven import CURRENT, OLDEST, KafkaJars

Schema = dict[str, Any]

JAVA_PACKAGES = {
    "kafka-clients": "org.apache.kafka.common.message",
    "kafka-group-coordinator": "org.apache.kafka.coordinator.group.generated",
    "kafka-transaction-coordinator": "org.apache.kafka.coordinator.transaction.generated",
    "kafka-share-coordinator": "org.apache.kafka.coordinator.share.generated",
    "kafka-metadata": "org.apache.kafka.common.metadata",
}
SCHEMA = r"common/(message|metadata)/\w+\.json"
"""The files of schemas in the jars."""

DATA_SUFFIX_TYPES = ("request", "response", "header")
"""Messages of these types are Java classes named with "Data" at the end, for want of the plain name."""

ZERO_VALUES = {"bool": False, "float64": 0.0, "string": "", "uuid": ZERO_UUID, "bytes": b"", "records": None}


@attrs.frozen
class Shape:
    """One field as one version has it.

    `kind` is Kafka's type, "struct" for any struct, with "[]" in front for arrays of it.  `default` is what
    is left in the field by a version without it; "struct" stands for a struct of defaults.
    """

    name: str
    kind: str
    nullable: bool
    tag: int | None
    default: Any
    ignorable: bool
    flexible: bool
    fields: tuple[Shape, ...]
    json_name: str = attrs.field(eq=False, default="")

    @property
    def element(self) -> str:
        return self.kind.removeprefix("[]")

    @property
    def is_array(self) -> bool:
        return self.kind.startswith("[]")


@attrs.frozen
class Message:
    """One of Kafka's messages, as one jar describes it."""

    schema: Schema
    package: str
    generation: str
    """The jar it is from: CURRENT or OLDEST."""
    has_unstable_version: bool
    """Whether its highest version is not offered by a broker.  Of a response, its request says so."""

    @property
    def name(self) -> str:
        return str(self.schema["name"])

    @property
    def type(self) -> str:
        return str(self.schema["type"])

    @property
    def java_class(self) -> str:
        suffix = "Data" if self.type in DATA_SUFFIX_TYPES else ""
        return f"{self.package}.{self.name}{suffix}"

    @property
    def valid(self) -> VersionRange:
        return VersionRange.parse(self.schema["validVersions"])

    @property
    def stable_versions(self) -> range:
        return range(self.valid.low, self.valid.high + 1 - self.has_unstable_version)

    def is_flexible(self, version: int) -> bool:
        return version in VersionRange.parse(self.schema["flexibleVersions"])

    def shape(self, version: int) -> tuple[Shape, ...]:
        structs = {one["name"]: one["fields"] for one in self.schema.get("commonStructs", [])}
        return tuple(_shapes(self.schema["fields"], structs, version))


def declared_in(jars: KafkaJars, name: str) -> list[Message]:
    """The message as each generation of the jars has it, newest first."""
    generations = (messages_of(jars, generation) for generation in (CURRENT, OLDEST))
    return [messages[name] for messages in generations if name in messages]


def source_of(jars: KafkaJars, name: str, version: int) -> Message:
    """The jar whose schema counts for a version: the newest that still has it."""
    for message in declared_in(jars, name):
        if version in message.valid:
            return message
    raise AssertionError(f"Kafka has no {name} version {version}")


@cache
def messages_of(jars: KafkaJars, generation: str = CURRENT) -> dict[str, Message]:
    """Every message of one generation, by name."""
    found: list[tuple[Schema, str]] = []
    for jar in jars.message_jars(generation):
        package = JAVA_PACKAGES[re.sub(r"-[\d.]+\.jar$", "", jar.name)]
        with zipfile.ZipFile(jar) as archive:
            found += [(parsed(archive.read(name).decode()), package) for name in schema_names(archive)]
    unstable_apis = {schema["apiKey"] for schema, _ in found if schema.get("latestVersionUnstable")}
    return {
        schema["name"]: Message(
            schema,
            package,
            generation,
            schema["type"] in ("request", "response") and schema["apiKey"] in unstable_apis,
        )
        for schema, package in found
    }


def our_shape(description: Schema, version: int) -> tuple[Shape, ...]:
    """One version of a message as our declarations have it, from pykafka2.protocol.describe."""
    return tuple(
        Shape(
            name=one["name"],
            kind=one["type"],
            nullable=_within(one["nullable_versions"], version),
            tag=one["tag"] if _within(one["tagged_versions"], version) else None,
            default=one["default"],
            ignorable=one["ignorable"],
            flexible=one["flexible"],
            fields=our_shape(one, version),
        )
        for one in description["fields"]
        if _within(one["versions"], version)
    )


def _within(span: tuple[int, int] | None, version: int) -> bool:
    return span is not None and span[0] <= version <= span[1]


def schema_names(archive: zipfile.ZipFile) -> list[str]:
    """The files of message schemas in a jar."""
    return [one for one in archive.namelist() if re.fullmatch(SCHEMA, one)]


def parsed(text: str) -> Schema:
    """A schema from its file."""
    # Kafka's schemas are JSON with comments on lines, or ends of lines, of their own.
    plain = re.sub(r"^\s*//.*$|(?<=[,{\[\]}])\s*//.*$", "", text, flags=re.MULTILINE)
    # One of 2.8 has a brace too many at its end, which Kafka's parser does not read.
    schema: Schema = json.JSONDecoder().raw_decode(plain.lstrip())[0]
    return schema


def _shapes(fields: list[Schema], structs: dict[str, list[Schema]], version: int) -> list[Shape]:
    shapes = []
    for one in fields:
        # A field without versions has those in which it is tagged.
        if version not in VersionRange.parse(one.get("versions") or one["taggedVersions"]):
            continue
        array = one["type"].startswith("[]")
        element = one["type"].removeprefix("[]")
        nested = one.get("fields") or structs.get(element, [])
        is_struct = element[0].isupper()
        kind = ("[]" if array else "") + ("struct" if is_struct else element)
        tagged = version in VersionRange.parse(one.get("taggedVersions", "none"))
        shapes.append(
            Shape(
                name=snake_case(one["name"]),
                kind=kind,
                nullable=version in VersionRange.parse(one.get("nullableVersions", "none")),
                tag=one["tag"] if tagged else None,
                default=_default(kind, one.get("default")),
                ignorable=one.get("ignorable", False),
                flexible=one.get("flexibleVersions") != "none",
                fields=tuple(_shapes(nested, structs, version)),
                json_name=one["name"][0].lower() + one["name"][1:],
            )
        )
    return shapes


def _default(kind: str, text: Any) -> Any:
    """A schema's default as a value; Kafka writes numbers as text or as numbers, some in hexadecimal."""
    if text == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind == "struct":
        return "struct"
    if text is None or text == "":
        return ZERO_VALUES.get(kind, 0)
    if kind == "bool":
        return str(text).lower() == "true"
    if kind == "float64":
        return float(text)
    return text if kind == "string" else int(str(text), 0)
