"""A few messages byte by byte, written by hand from Kafka's protocol guide."""

from __future__ import annotations

from pykafka2.protocol.framing import encode_request, encode_response
from pykafka2.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from pykafka2.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from pykafka2.protocol.messages.headers import RequestHeader
from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pykafka2.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def hexed(text: str) -> bytes:
    """Bytes from hexadecimal digits; what follows a | on a line is a note."""
    return bytes.fromhex("".join(line.partition("|")[0] for line in text.splitlines()))


def test_api_versions_request_v0() -> None:
    assert encode_request(ApiVersionsRequest(), 0, 7, "me") == [
        hexed("""
        0000000c | length
        0012     | API key 18
        0000     | version 0
        00000007 | correlation id
        0002 6d65| client id
        """)
    ]


def test_api_versions_request_v3_has_a_flexible_header_with_an_old_string() -> None:
    request = ApiVersionsRequest(client_software_name="py", client_software_version="1")
    assert encode_request(request, 3, 7, None) == [
        hexed("""
        00000011 | length
        0012     | API key 18
        0003     | version 3
        00000007 | correlation id
        ffff     | no client id, two bytes even here
        00       | no tagged fields in the header
        03 7079  | name, length plus one
        02 31    | version
        00       | no tagged fields
        """)
    ]


def test_api_versions_response_v3_keeps_the_old_header() -> None:
    response = ApiVersionsResponse(
        api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)],
        supported_features=[SupportedFeatureKey(name="kraft", min_version=0, max_version=1)],
        finalized_features_epoch=9,
    )
    assert encode_response(response, 3, 7) == [
        hexed("""
        0000002b          | length
        00000007          | correlation id, and nothing else in the header
        0000              | error code
        02                | one API, plus one
        0012 0000 0004    | 18, 0 to 4
        00                | no tagged fields in it
        00000000          | throttle time
        02                | two tagged fields: those that differ from their defaults
        00 0c             | tag 0, 12 bytes: supported features
        02                | one, plus one
        06 6b72616674     | "kraft"
        0000 0001         | 0 to 1
        00                | no tagged fields in it
        01 08             | tag 1, 8 bytes: epoch of the finalized features
        0000000000000009
        """)
    ]


def test_api_versions_response_v0() -> None:
    response = ApiVersionsResponse(
        error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)]
    )
    assert encode_response(response, 0, 7) == [
        hexed("""
        00000010       | length
        00000007       | correlation id
        0023           | error code 35
        00000001       | one API
        0012 0000 0004 | 18, 0 to 4
        """)
    ]


def test_metadata_request_of_all_topics_and_of_one() -> None:
    every = MetadataRequest(topics=None)
    assert every.encode(1) == hexed("ffffffff")
    assert every.encode(9) == hexed("00 01 00 00 00 | null, create, two operations refused, no tags")

    one = MetadataRequest(topics=[MetadataRequestTopic(name="ab")], allow_auto_topic_creation=False)
    assert one.encode(4) == hexed("00000001 0002 6162 00")
    assert one.encode(12) == hexed(
        """
        02                               | one topic, plus one
        00000000000000000000000000000000 | no topic id
        03 6162 00                       | name, no tagged fields
        00 00 00                         | do not create, no operations of topics, no tagged fields
        """
    )


def test_produce_v9() -> None:
    request = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=30000,
        topic_data=[
            TopicProduceData(name="t", partition_data=[PartitionProduceData(index=3, records=b"\xab\xcd")])
        ],
    )
    assert encode_request(request, 9, 1, "c") == [
        hexed("""
        00000021                      | length
        0000 0009 00000001 0001 63 00 | header version 2
        00            | no transactional id
        ffff          | acks
        00007530      | timeout
        02 02 74      | one topic, "t"
        02 00000003   | one partition, 3
        03 abcd       | records, length plus one
        00 00 00      | tagged fields of partition, topic and request
        """)
    ]


def test_fetch_response_v12_carries_a_diverging_epoch_as_a_tagged_struct() -> None:
    response = FetchResponse(
        session_id=5,
        responses=[
            FetchableTopicResponse(
                topic="t",
                partitions=[
                    PartitionData(
                        partition_index=0,
                        high_watermark=2,
                        aborted_transactions=None,
                        diverging_epoch=EpochEndOffset(epoch=1, end_offset=2),
                    )
                ],
            )
        ],
    )
    assert response.encode(12) == hexed("""
        00000000          | throttle time
        0000              | error code
        00000005          | session
        02 02 74          | one topic, "t"
        02                | one partition
        00000000 0000     | index, error code
        0000000000000002  | high watermark
        ffffffffffffffff  | last stable offset
        ffffffffffffffff  | log start offset
        00                | aborted transactions: null
        ffffffff          | preferred read replica
        00                | records: null
        01                | one tagged field
        00 0d             | tag 0, 13 bytes: diverging epoch
        00000001 0000000000000002 00
        00                | no tagged fields of the topic
        00                | none of the response
        """)


def test_the_oldest_header_has_no_client_id() -> None:
    header = RequestHeader(request_api_key=7, request_api_version=0, correlation_id=1)
    assert header.encode(0) == hexed("0007 0000 00000001")
