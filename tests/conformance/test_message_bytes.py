"""Our bytes of every message in every version are Kafka's bytes, both ways.

Kafka's side is its own generated code: 4.4.0, and 3.9.1 for the versions that 4.x has dropped.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from pykafka2.protocol.framing import encode_request, encode_response
from pykafka2.protocol.registry import API_KEYS, ApiInfo, all_messages, request_class, response_class
from pykafka2.protocol.struct import Message

from .bridge import Bridge, b64, unb64
from .maven import CURRENT, OLDEST, KafkaJars
from .notation import Json, Maker, as_java_writes, instance
from .schemas import Shape, source_of

RICHNESS = (0.0, 0.3, 0.6, 0.8, 0.95, 1.0)
"""One instance of each message and version for each of these, from all defaults to everything set."""


@attrs.frozen
class Case:
    """One instance: in Kafka's notation, and as ours."""

    generation: str
    java_class: str
    version: int
    fields: tuple[Shape, ...]
    json: Json
    ours: Message


@pytest.mark.parametrize("cls", list(all_messages()), ids=lambda cls: cls.NAME)
def test_bytes_are_kafkas(jars: KafkaJars, bridge_of: Callable[[str], Bridge], cls: type[Message]) -> None:
    cases = _cases(jars, cls)
    assert len(cases) == len(RICHNESS) * (cls.LAST_VERSION + 1 - cls.MIN_VERSION)
    for generation in (CURRENT, OLDEST):
        _compare([case for case in cases if case.generation == generation], bridge_of(generation))


@pytest.mark.parametrize("info", API_KEYS.values(), ids=lambda info: info.name)
def test_headers_are_kafkas(jars: KafkaJars, bridge_of: Callable[[str], Bridge], info: ApiInfo) -> None:
    """Kafka's table of header versions, and its bytes of the headers, in the frames that we make."""
    for version in range(info.min_version, info.max_version + 1):
        for name, encode, arguments, direction in (
            (f"{info.name}Request", encode_request, (7, "client"), "request"),
            (f"{info.name}Response", encode_response, (7,), "response"),
        ):
            kafka = source_of(jars, name, version)
            java = bridge_of(kafka.generation)
            fields = kafka.shape(version)
            cls = request_class(info.key) if direction == "request" else response_class(info.key)
            message = instance(cls, fields, Maker(name).message(fields, 0.0))
            frame = b"".join(encode(message, version, *arguments))

            (versions,) = java("header_versions", [{"api_key": info.key, "version": version}])
            header = {
                "class": f"org.apache.kafka.common.message.{direction.title()}HeaderData",
                "version": versions[direction],
                "json": {
                    "requestApiKey": info.key,
                    "requestApiVersion": version,
                    "correlationId": 7,
                    "clientId": "client",
                },
            }
            before = unb64(java("json_to_bytes", [header])[0]) or b""
            body = message.encode(version)
            expected = (len(before) + len(body)).to_bytes(4, "big") + before + body
            assert frame.hex(" ") == expected.hex(" "), f"{name} version {version}"


def _compare(cases: list[Case], java: Bridge) -> None:
    encoded = [case.ours.encode(case.version) for case in cases]
    questions = [{"class": case.java_class, "version": case.version, "json": case.json} for case in cases]
    for case, ours, answer in zip(cases, encoded, java("json_to_bytes", questions), strict=True):
        where = f"{case.java_class} version {case.version}: {case.ours!r}"
        kafkas = unb64(answer)
        assert kafkas is not None
        assert ours.hex(" ") == kafkas.hex(" "), where
        assert type(case.ours).decode(kafkas, case.version) == case.ours, where

    questions = [
        {"class": case.java_class, "version": case.version, "bytes": b64(ours)}
        for case, ours in zip(cases, encoded, strict=True)
    ]
    for case, printed in zip(cases, java("bytes_to_json", questions), strict=True):
        assert printed == as_java_writes(case.fields, case.json), f"{case.java_class} version {case.version}"


def _cases(jars: KafkaJars, cls: type[Message]) -> list[Case]:
    cases = []
    for version in range(cls.MIN_VERSION, cls.LAST_VERSION + 1):
        kafka = source_of(jars, cls.NAME, version)
        fields = kafka.shape(version)
        for richness in RICHNESS:
            json = Maker(f"{cls.NAME} {version} {richness}").message(fields, richness)
            ours = instance(cls, fields, json)
            cases.append(Case(kafka.generation, kafka.java_class, version, fields, json, ours))
    return cases
