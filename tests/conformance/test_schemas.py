"""Every declared message agrees with the schemas in Apache Kafka's jars, version by version."""

from __future__ import annotations

import pytest

from pykafka2.protocol.describe import describe
from pykafka2.protocol.registry import API_KEYS, all_messages
from pykafka2.protocol.struct import Message

from .maven import KafkaJars
from .schemas import Shape, declared_in, messages_of, our_shape, source_of

MESSAGES = list(all_messages())

NOT_SUPPORTED = {
    "StreamsGroupHeartbeat": "streams groups (KIP-1071) are Kafka Streams' own",
    "StreamsGroupDescribe": "streams groups (KIP-1071) are Kafka Streams' own",
    "StreamsGroupTopologyDescriptionUpdate": "streams groups (KIP-1071) are Kafka Streams' own",
    "Vote": "KRaft among controllers",
    "BeginQuorumEpoch": "KRaft among controllers",
    "EndQuorumEpoch": "KRaft among controllers",
    "FetchSnapshot": "KRaft among controllers",
    "ControllerRegistration": "KRaft among controllers",
    "UpdateRaftVoter": "KRaft among controllers",
}
"""The APIs of Kafka 4.4.0 that are left out, and why."""

NOT_KEPT = ("StreamsGroup",)
"""Records, by the beginning of their names, of streams groups."""

ASPECTS = {"kind", "nullable", "tag", "default", "ignorable", "flexible"}


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.NAME)
def test_a_message_is_declared_as_in_kafka(jars: KafkaJars, cls: type[Message]) -> None:
    kafka = declared_in(jars, cls.NAME)
    ours = describe(cls)
    newest = kafka[0]
    assert ours["type"] == {"header": "data"}.get(newest.type, newest.type)
    assert ours["api_key"] == newest.schema.get("apiKey")
    assert ours["latest_version_unstable"] == newest.has_unstable_version

    # The union of all generations. Of the oldest, only what was stable: its unstable versions came to
    # nothing, or were declared again.
    low = min(one.stable_versions.start for one in kafka if one.stable_versions)
    assert ours["valid_versions"] == (low, newest.valid.high)


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.NAME)
def test_every_version_has_kafkas_fields(jars: KafkaJars, cls: type[Message]) -> None:
    ours = describe(cls)
    for version in range(cls.MIN_VERSION, cls.LAST_VERSION + 1):
        kafka = source_of(jars, cls.NAME, version)
        is_newest = version in declared_in(jars, cls.NAME)[0].valid
        assert cls.is_flexible(version) == kafka.is_flexible(version), f"version {version}"
        # What is ignorable matters to versions that lack the field: there the newest schema's word counts.
        aspects = ASPECTS if is_newest else ASPECTS - {"ignorable"}
        differences = _differences(our_shape(ours, version), kafka.shape(version), sorted(aspects))
        assert not differences, f"{cls.NAME} version {version}:\n" + "\n".join(differences)


def test_every_api_of_kafka_is_implemented_or_left_out_on_purpose(jars: KafkaJars) -> None:
    messages = messages_of(jars)
    kafka = {
        message.schema["apiKey"]: message.name.removesuffix("Request")
        for message in messages.values()
        if message.type == "request" and message.stable_versions
    }
    ours = {info.key: info.name for info in API_KEYS.values()}
    assert ours.items() <= kafka.items()
    assert set(kafka.values()) - set(ours.values()) == set(NOT_SUPPORTED)


def test_every_record_and_structure_of_kafka_is_declared_or_left_out_on_purpose(jars: KafkaJars) -> None:
    messages = messages_of(jars)
    kafka = {message.name for message in messages.values() if message.type not in ("request", "response")}
    ours = {cls.NAME for cls in MESSAGES}
    missing = sorted(name for name in kafka - ours if not name.startswith(NOT_KEPT))
    assert not missing, f"in Kafka's jars, but not declared: {missing}"


def _differences(
    ours: tuple[Shape, ...], kafka: tuple[Shape, ...], aspects: list[str], where: str = ""
) -> list[str]:
    """In words, field by field; tagged fields have no order of their own on the wire, the others do."""
    names = [[one.name for one in shapes if one.tag is None] for shapes in (ours, kafka)]
    if names[0] != names[1]:
        return [f"{where or 'top'}: fields are {names[0]}, in Kafka {names[1]}"]
    tagged = [{one.name for one in shapes if one.tag is not None} for shapes in (ours, kafka)]
    if tagged[0] != tagged[1]:
        return [f"{where or 'top'}: tagged fields are {tagged[0]}, in Kafka {tagged[1]}"]
    by_name = {one.name: one for one in kafka}
    found: list[str] = []
    for one in ours:
        other = by_name[one.name]
        found.extend(
            f"{where}{one.name}: {aspect} is {getattr(one, aspect)!r}, in Kafka {getattr(other, aspect)!r}"
            for aspect in aspects
            if getattr(one, aspect) != getattr(other, aspect)
        )
        found += _differences(one.fields, other.fields, aspects, f"{where}{one.name}.")
    return found
