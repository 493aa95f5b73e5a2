"""Messages as Python values: made with keywords, compared by value, shown without secrets."""

from __future__ import annotations

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pykafka2.errors import CorruptData, SerializationError, UnsupportedVersion
from pykafka2.protocol.declared import resolved_fields, smallest_size
from pykafka2.protocol.messages.api_versions import ApiVersionsResponse
from pykafka2.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from pykafka2.protocol.messages.headers import RequestHeader
from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from pykafka2.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka2.protocol.messages.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse
from pykafka2.protocol.messages.topics import CreatableTopic, CreatableTopicConfig
from pykafka2.protocol.messages.transaction import InitProducerIdRequest, TxnOffsetCommitRequest
from pykafka2.protocol.messages.users import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from pykafka2.protocol.primitives import uvarint
from pykafka2.protocol.registry import all_messages
from pykafka2.protocol.struct import Message, Struct


def fetch(*topics: FetchTopic) -> FetchRequest:
    return FetchRequest(max_wait_ms=500, min_bytes=1, topics=list(topics))


def test_fields_left_out_have_kafkas_defaults() -> None:
    request = fetch()
    assert (request.replica_id, request.max_bytes, request.session_epoch) == (-1, 2**31 - 1, -1)
    assert request.replica_state.replica_epoch == -1
    assert request.cluster_id is None


def test_field_without_a_default_is_required() -> None:
    with pytest.raises(TypeError, match=r"FetchPartition.*'fetch_offset'"):
        FetchPartition(partition=0, partition_max_bytes=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="bogus"):
        FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1, bogus=1)  # type: ignore[call-arg]


def test_two_instances_share_no_default() -> None:
    one, other = fetch(), fetch()
    one.forgotten_topics_data.append(None)  # type: ignore[arg-type]
    one.replica_state.replica_id = 7
    assert other == fetch()
    decoded = PartitionData.__new__(PartitionData)
    del decoded
    first, second = (
        FetchResponse(responses=[]),
        FetchResponse.decode(FetchResponse(responses=[]).encode(17), 17),
    )
    assert first == second
    assert first.node_endpoints is not second.node_endpoints


def test_decoded_instances_share_no_default_struct() -> None:
    encoded = FetchRequest(max_wait_ms=1, min_bytes=1, topics=[]).encode(16)
    one, other = FetchRequest.decode(encoded, 16), FetchRequest.decode(encoded, 16)
    one.replica_state.replica_id = 7
    assert other.replica_state.replica_id == -1


def test_equality_is_by_value_and_class() -> None:
    partition = FetchPartition(partition=0, fetch_offset=5, partition_max_bytes=9)
    assert partition == FetchPartition(partition=0, fetch_offset=5, partition_max_bytes=9)
    assert partition != FetchPartition(partition=0, fetch_offset=6, partition_max_bytes=9)
    assert partition != (0, 5, 9)
    assert SaslAuthenticateRequest(auth_bytes=b"") != SaslAuthenticateResponse(auth_bytes=b"")
    with pytest.raises(TypeError, match="unhashable"):
        hash(partition)


def test_a_message_has_slots_only() -> None:
    with pytest.raises(AttributeError):
        fetch().bogus = 1  # type: ignore[attr-defined]
    assert not hasattr(fetch(), "__dict__")


def test_messages_can_be_copied_and_pickled() -> None:
    request = fetch(FetchTopic(topic="t", partitions=[]))
    assert copy.deepcopy(request) == request
    assert pickle.loads(pickle.dumps(request)) == request


def test_repr_shows_set_fields_and_shortens_bytes() -> None:
    partition = PartitionProduceData(index=3, records=bytes(1000))
    assert repr(partition) == "PartitionProduceData(index=3, records=<1000 bytes>)"
    topic = TopicProduceData(topic_id=bytes(15) + b"\1", partition_data=[])
    assert repr(topic) == "TopicProduceData(topic_id=AAAAAAAAAAAAAAAAAAAAAQ, partition_data=[])"
    many = FetchTopic(
        partitions=[FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=0) for n in range(99)]
    )
    assert "91 more" in repr(many)


def test_repr_never_shows_a_secret() -> None:
    assert "hunter2" not in repr(SaslAuthenticateRequest(auth_bytes=b"\0alice\0hunter2"))
    upsertion = ScramCredentialUpsertion(
        name="alice", mechanism=1, iterations=4096, salt=b"pepper", salted_password=b"hunter2"
    )
    shown = repr(AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]))
    assert "alice" in shown
    assert "pepper" not in shown
    assert "hunter2" not in shown


def test_repr_shows_names_of_settings_but_no_values() -> None:
    config = CreatableTopicConfig(name="sasl.jaas.config", value="hunter2")
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[config])
    assert "sasl.jaas.config" in repr(topic)
    assert "hunter2" not in repr(topic)


def test_every_field_with_a_secrets_name_is_secret() -> None:
    def fields(cls: type[Struct]) -> None:
        for one in resolved_fields(cls):
            if one.struct is not None:
                fields(one.struct)
            elif one.kind in ("bytes", "string") and one.name in (
                "password",
                "salted_password",
                "salt",
                "hmac",
                "auth_bytes",
            ):
                assert one.secret, f"{cls.__name__}.{one.name}"

    for cls in all_messages():
        fields(cls)


def test_a_field_that_the_version_lacks_is_refused_unless_ignorable() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)
    with pytest.raises(
        UnsupportedVersion, match=r"MetadataRequest v3, field allow_auto_topic_creation is set"
    ):
        request.encode(3)
    assert MetadataRequest.decode(request.encode(4), 4) == request

    nested = fetch(
        FetchTopic(
            topic="t",
            partitions=[
                FetchPartition(
                    partition=0,
                    current_leader_epoch=4,
                    last_fetched_epoch=3,
                    fetch_offset=0,
                    partition_max_bytes=1,
                )
            ],
        )
    )
    with pytest.raises(
        UnsupportedVersion, match=r"FetchRequest v9, field topics\.partitions\.last_fetched_epoch"
    ):
        nested.encode(9)
    nested.topics[0].partitions[0].last_fetched_epoch = -1
    # current_leader_epoch is ignorable: version 8 drops it silently.
    assert FetchRequest.decode(nested.encode(8), 8).topics[0].partitions[0].current_leader_epoch == -1


def test_a_list_that_the_version_lacks_is_refused_when_it_holds_something() -> None:
    request = MetadataRequest(topics=[])
    response = FetchResponse(responses=[], session_id=3)
    with pytest.raises(UnsupportedVersion, match="session_id"):
        response.encode(6)
    assert MetadataRequest.decode(request.encode(1), 1) == request


def test_versions_outside_the_declared_ones_are_refused() -> None:
    with pytest.raises(UnsupportedVersion, match="FetchRequest has no version 19, only 0 to 18"):
        fetch().encode(19)
    with pytest.raises(UnsupportedVersion, match="no version -1"):
        FetchRequest.decode(b"", -1)


def test_an_unstable_version_is_declared_but_not_the_newest_to_offer() -> None:
    assert (InitProducerIdRequest.MAX_VERSION, InitProducerIdRequest.LAST_VERSION) == (5, 6)
    assert (TxnOffsetCommitRequest.MAX_VERSION, TxnOffsetCommitRequest.LAST_VERSION) == (6, 6)
    request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1, keep_prepared_txn=True)
    assert InitProducerIdRequest.decode(request.encode(6), 6) == request


@pytest.mark.parametrize("version", [3, 9])
def test_a_value_that_does_not_fit_names_its_field(version: int) -> None:
    def request(index: object, name: object = "t", records: object = b"") -> ProduceRequest:
        partition = PartitionProduceData(index=index, records=records)  # type: ignore[arg-type]
        topic = TopicProduceData(name=name, partition_data=[partition])  # type: ignore[arg-type]
        return ProduceRequest(transactional_id=None, acks=1, timeout_ms=1, topic_data=[topic])

    place = rf"ProduceRequest v{version}, field topic_data\."
    with pytest.raises(SerializationError, match=place + r"partition_data\.index"):
        request(2**31).encode(version)
    with pytest.raises(SerializationError, match=place + r"partition_data\.index"):
        request("3").encode(version)
    with pytest.raises(SerializationError, match=place + r"partition_data\.records: str is not bytes"):
        request(3, records="text").encode(version)
    with pytest.raises(SerializationError, match=place + "name"):
        request(3, name="t" * 40000).encode(version)
    with pytest.raises(SerializationError, match=place + "name"):
        request(3, name=None).encode(version)
    with pytest.raises(SerializationError, match=place + "name"):
        request(3, name="\ud800").encode(version)
    with pytest.raises(SerializationError, match="field acks"):
        ProduceRequest(transactional_id=None, acks=70000, timeout_ms=1, topic_data=[]).encode(version)


def test_a_uuid_must_have_sixteen_bytes() -> None:
    with pytest.raises(SerializationError, match=r"topics\.topic_id"):
        fetch(FetchTopic(topic_id=b"short", partitions=[])).encode(13)


def test_any_buffer_is_accepted_for_bytes_and_counted_in_bytes() -> None:
    import array

    words = memoryview(array.array("I", [1, 2, 3]))
    for buffer in (bytearray(12), memoryview(bytes(12)), words):
        request = SaslAuthenticateRequest(auth_bytes=buffer)  # type: ignore[arg-type]
        assert SaslAuthenticateRequest.decode(request.encode(2), 2).auth_bytes == bytes(buffer)


def test_records_are_views_of_the_frame() -> None:
    frame = bytearray(
        ProduceRequest(
            transactional_id=None,
            acks=1,
            timeout_ms=1,
            topic_data=[
                TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=b"abc")])
            ],
        ).encode(9)
    )
    records = ProduceRequest.decode(frame, 9).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    frame[frame.index(b"abc")] = ord("x")
    assert bytes(records) == b"xbc"


def test_null_where_the_version_allows_none_is_corrupt() -> None:
    with pytest.raises(CorruptData, match=r"SaslAuthenticateRequest v1, field auth_bytes: null"):
        SaslAuthenticateRequest.decode(b"\xff\xff\xff\xff", 1)
    with pytest.raises(CorruptData, match=r"SaslAuthenticateRequest v2, field auth_bytes: null"):
        SaslAuthenticateRequest.decode(b"\x00\x00", 2)
    with pytest.raises(CorruptData, match=r"MetadataRequest v0, field topics: null"):
        MetadataRequest.decode(b"\xff\xff\xff\xff", 0)
    assert MetadataRequest.decode(b"\xff\xff\xff\xff", 1).topics is None


def test_corrupt_data_names_the_field_within_a_run_of_fixed_width() -> None:
    encoded = fetch(FetchTopic(topic="t", partitions=[])).encode(3)
    with pytest.raises(CorruptData, match="field replica_id: the bytes end too early"):
        FetchRequest.decode(encoded[:3], 3)
    with pytest.raises(CorruptData, match="field min_bytes: the bytes end too early"):
        FetchRequest.decode(encoded[:11], 3)


@pytest.mark.parametrize(
    ("data", "version", "reason"),
    [
        ("7fffffff", 1, "2147483647 elements are announced, 0 bytes are left"),
        ("80000000", 1, "the length -2147483648 is negative"),
        ("00000001 7fff 00", 1, "32767 bytes are announced, 1 are left"),
        ("00000001 fffe 00", 1, "the length -2 is negative"),
        ("ffffffff0f 00", 9, "4294967294 elements are announced"),
        ("ffffffff7f 00", 9, "a varint does not fit 32 bits"),
        ("ffffffffff01 00", 9, "a varint is longer than 5 bytes"),
        ("02 ffff7f 00", 9, "longer than Kafka's 32767"),
        ("02 ffff", 9, "the bytes end too early"),
        ("02 03 c328 00 000000 00", 9, "not UTF-8"),
        ("02 02 74 01 05 ffffffff0f", 9, "4294967295 bytes are announced"),
        ("02 02 74 ffffffff0f", 9, "4294967295 elements are announced"),
    ],
)
def test_lengths_are_checked_against_the_remaining_bytes(data: str, version: int, reason: str) -> None:
    with pytest.raises(CorruptData, match=rf"MetadataRequest v{version}, field .*: .*{reason}"):
        MetadataRequest.decode(bytes.fromhex(data), version)


def test_unknown_tagged_fields_are_skipped() -> None:
    request = MetadataRequest(topics=[])
    encoded = request.encode(9)
    assert encoded.endswith(b"\0")
    tagged = encoded[:-1] + bytes.fromhex("02  05 03 616263  8101 00")
    assert MetadataRequest.decode(tagged, 9) == request


@pytest.mark.parametrize("cls", [RequestHeader, ApiVersionsResponse], ids=["unknown", "known"])
def test_more_than_ten_thousand_tagged_fields_are_rejected_as_in_kafka(cls: type[Message]) -> None:
    """A frame of half a megabyte, before authentication, has room for a quarter of a million."""
    version = 2 if cls is RequestHeader else 3
    made: Any = RequestHeader(request_api_key=3, request_api_version=3, correlation_id=1, client_id="x")
    whole = (made if cls is RequestHeader else ApiVersionsResponse(api_keys=[])).encode(version)
    count = 10_001
    frame = whole[:-1] + uvarint(count) + b"\x63\0" * count
    with pytest.raises(CorruptData, match="10001 tagged fields are announced, more than 10000"):
        cls.decode(frame, version)
    frame = whole[:-1] + uvarint(count - 1) + b"\x63\0" * (count - 1)
    assert cls.decode(frame, version) == cls.decode(whole, version)


def test_a_tagged_field_must_fill_its_size() -> None:
    encoded = fetch().encode(15)
    replica_state = bytes.fromhex("01  01 0d 00000001 0000000000000002 00")
    decoded = FetchRequest.decode(encoded[:-1] + replica_state, 15)
    assert decoded.replica_state.replica_id == 1
    with pytest.raises(
        CorruptData, match="field replica_state: a tagged field of 14 bytes holds a value of 13"
    ):
        FetchRequest.decode(encoded[:-1] + replica_state.replace(b"\x0d", b"\x0e") + b"\0", 15)
    with pytest.raises(CorruptData, match="field replica_state"):
        FetchRequest.decode(encoded[:-1] + replica_state.replace(b"\x0d", b"\x7f"), 15)


def test_bytes_after_the_message_are_corrupt_unless_allowed() -> None:
    encoded = MetadataRequest(topics=None).encode(1) + b"!!"
    with pytest.raises(CorruptData, match="MetadataRequest v1: 2 bytes follow its last field"):
        MetadataRequest.decode(encoded, 1)
    assert MetadataRequest.decode(encoded, 1, allow_trailing=True).topics is None
    assert MetadataRequest.RESPONSE is MetadataResponse


def test_threads_that_need_a_codec_at_once_all_get_it() -> None:
    class_and_structs = (FetchResponse, FetchableTopicResponse, PartitionData)
    for cls in class_and_structs:
        cls._encoders.clear()
        cls._decoders.clear()
    partition = PartitionData(partition_index=1, high_watermark=2, aborted_transactions=None)
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    start = threading.Barrier(8)

    def round_trip(_: int) -> bool:
        start.wait(timeout=60)
        return all(FetchResponse.decode(response.encode(v), v) == response for v in range(4, 13))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(round_trip, range(8))) == [True] * 8


def test_the_smallest_size_of_a_struct_bounds_its_bytes_from_below() -> None:
    partition = PartitionData(partition_index=0, high_watermark=0, aborted_transactions=None)
    empty = FetchResponse(responses=[FetchableTopicResponse(topic="", partitions=[partition])])
    for version, flexible in ((4, False), (11, False), (12, True), (17, True)):
        bare = FetchResponse(responses=[FetchableTopicResponse(topic="", partitions=[])])
        size = len(empty.encode(version)) - len(bare.encode(version))
        assert smallest_size(PartitionData, version, flexible) == size
