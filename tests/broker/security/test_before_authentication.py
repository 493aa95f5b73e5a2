"""Bytes from unauthenticated connections: each closes only its connection, and nothing is processed.

The fixture `user` checks that other connections are served.
"""

from __future__ import annotations

import socket
import struct

import pytest

from pykafka2.errors import name_of
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from pykafka2.protocol.registry import API_KEYS, ApiKey
from pykafka2.testing import KafkaCluster
from tests.broker.support.raw_client import RawClient
from tests.broker.support.sasl import (
    FAILED,
    LIMIT,
    USERS,
    address_of,
    authenticate,
    frame_of,
    log_in,
    plain_token,
    processed,
    raw_frame,
    request_bytes,
)


@pytest.mark.gate
@pytest.mark.slow
def test_no_other_request_is_processed_before_authentication(cluster: KafkaCluster, user: RawClient) -> None:
    """All API keys and 1,000 unknown ones are sent, in the highest version and an impossible one."""
    cluster.forget()
    allowed = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}
    keys = [key for key in (*API_KEYS, *range(200, 1100), *range(-100, 0)) if key not in allowed]
    assert len(keys) > 1000
    address = address_of(cluster, "SASL_PLAINTEXT")
    for start in range(0, len(keys), 100):
        wires = []
        for key in keys[start : start + 100]:
            versions = (API_KEYS[key].max_version, 99) if key in API_KEYS else (0,)
            for version in versions:
                wires.append(RawClient(address))
                wires[-1].socket.sendall(raw_frame(frame_of(key, version, bytes(32))))
        for wire in wires:
            assert wire.is_closed_by_broker()
            wire.close()
    assert processed(cluster) == set()


# ---------------------------------------------------------------------- bytes before authentication

REFUSED_BYTES = {
    "a frame of negative length": struct.pack(">i", -1),
    "a frame of the smallest length": struct.pack(">i", -(1 << 31)),
    "a frame above 512 KiB": struct.pack(">i", LIMIT + 1),
    "a frame of 100 MiB": struct.pack(">i", 100 << 20),
    "a frame of 2 GiB": struct.pack(">i", (1 << 31) - 1),
    "HTTP": b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",
    "TLS": bytes.fromhex("16030100f5010000f10303") + bytes(64),
    "SSH": b"SSH-2.0-OpenSSH_9.6\r\n" + bytes(64),
    "an empty frame": struct.pack(">i", 0),
    "a frame of one byte": raw_frame(b"\0"),
    "a header without its client id": raw_frame(struct.pack(">hhi", 18, 0, 7)),
    "a client id longer than its frame": raw_frame(struct.pack(">hhi", 18, 0, 7) + b"\x7f\xff" + b"a"),
    "a client id of negative length": raw_frame(struct.pack(">hhi", 18, 0, 7) + b"\x80\0"),
    "a client id that is not UTF-8": raw_frame(
        struct.pack(">hhi", 17, 1, 7) + b"\0\2\xff\xfe" + b"\0\5PLAIN"
    ),
    "a GSSAPI token of Kafka 0.9": raw_frame(b"\x60\x82\x02\x4b\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"),
    "a bare PLAIN token": raw_frame(plain_token("ann")),
    "a Produce": raw_frame(frame_of(0, 11, bytes(64))),
    "a Metadata": request_bytes(MetadataRequest(topics=None), 12),
    "an Envelope": raw_frame(frame_of(58, 0, bytes(64))),
    "a BrokerRegistration": raw_frame(frame_of(62, 4, bytes(64))),
    "an AlterPartition": raw_frame(frame_of(56, 2, bytes(64))),
    "a WriteTxnMarkers": raw_frame(frame_of(27, 1, bytes(64))),
    "an AlterUserScramCredentials": raw_frame(frame_of(51, 0, bytes(64))),
    "a CreateDelegationToken": raw_frame(frame_of(38, 3, bytes(64))),
    "a token without a mechanism": request_bytes(SaslAuthenticateRequest(auth_bytes=plain_token("ann")), 2),
    "a handshake of a version that does not exist": raw_frame(frame_of(17, 2, b"\0\5PLAIN")),
    "a handshake whose name is longer than its frame": raw_frame(frame_of(17, 1, b"\x7f\xffPLAIN")),
    "a handshake without a name": raw_frame(frame_of(17, 1, b"\xff\xff")),
    "a handshake that is cut": raw_frame(frame_of(17, 1, b"\0\5PL")),
    "ApiVersions that are cut": raw_frame(frame_of(18, 3, b"\0\x7f")),
}


@pytest.mark.parametrize("case", REFUSED_BYTES)
def test_refused_bytes_close_the_connection(
    cluster: KafkaCluster, wire: RawClient, user: RawClient, case: str
) -> None:
    wire.socket.sendall(REFUSED_BYTES[case])
    assert wire.is_closed_by_broker()
    assert processed(cluster) == set()


@pytest.mark.parametrize("case", [case for case in REFUSED_BYTES if case != "a token without a mechanism"])
def test_refused_bytes_after_the_handshake_close_the_connection(
    cluster: KafkaCluster, wire: RawClient, user: RawClient, case: str
) -> None:
    wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    wire.socket.sendall(REFUSED_BYTES[case])
    assert wire.is_closed_by_broker()
    assert processed(cluster) == {"SaslHandshake"}


def test_frame_above_the_limit_is_rejected_by_its_length(cluster: KafkaCluster, user: RawClient) -> None:
    """The broker allocates nothing for many such connections."""
    wires = [RawClient(address_of(cluster, "SASL_PLAINTEXT")) for _ in range(50)]
    for wire in wires:
        wire.socket.sendall(struct.pack(">i", LIMIT + 1))
    for wire in wires:
        assert wire.is_closed_by_broker()
        wire.close()


def test_frame_above_the_limit_is_accepted_after_authentication(user: RawClient) -> None:
    user.socket.sendall(struct.pack(">i", LIMIT + 4) + struct.pack(">hhi", 3, 12, 9) + b"\0\1a\0\0")
    # The broker waits for the rest.
    user.socket.settimeout(0.1)
    assert not user.is_closed_by_broker()
    user.reopen()
    assert log_in(user).error_code == 0


# ---------------------------------------------------------------------- many, slow, silent


def test_second_api_versions_request_closes_the_connection(cluster: KafkaCluster, wire: RawClient) -> None:
    request = ApiVersionsRequest(client_software_name="evil", client_software_version="1")
    assert wire.call(request, 3).error_code == 0
    wire.send(request, 3)
    assert wire.is_closed_by_broker()


def test_login_succeeds_after_an_unsupported_version_of_api_versions(wire: RawClient) -> None:
    wire.socket.sendall(raw_frame(frame_of(18, 99, b"\0")))
    assert wire.receive_frame()[4:6] == b"\0\x23"
    assert log_in(wire).error_code == 0


def test_request_in_one_segment_with_the_last_token_is_handled_after_it(
    cluster: KafkaCluster, wire: RawClient
) -> None:
    """The broker does not read it before the token is accepted."""
    wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    token = request_bytes(SaslAuthenticateRequest(auth_bytes=plain_token("ann")), 2)
    wire.socket.sendall(token + request_bytes(MetadataRequest(topics=[]), 12))
    assert wire.receive(SaslAuthenticateRequest, 2)[1].error_code == 0
    assert wire.receive(MetadataRequest, 12)[1].brokers


def test_request_in_one_segment_with_a_wrong_token_is_not_processed(
    cluster: KafkaCluster, wire: RawClient, user: RawClient
) -> None:
    wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    token = request_bytes(SaslAuthenticateRequest(auth_bytes=b"\0ann\0wrong"), 2)
    wire.socket.sendall(token + request_bytes(MetadataRequest(topics=[]), 12))
    assert wire.receive(SaslAuthenticateRequest, 2)[1].error_code == FAILED
    assert wire.is_closed_by_broker()
    assert processed(cluster) == {"SaslHandshake", "SaslAuthenticate"}


def test_repeated_first_scram_message_fails(wire: RawClient) -> None:
    wire.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
    assert authenticate(wire, b"n,,n=ann,r=abc").error_code == 0
    assert authenticate(wire, b"n,,n=ann,r=abc").error_code == FAILED
    assert wire.is_closed_by_broker()


def test_connection_closed_during_login_leaves_no_state(cluster: KafkaCluster, user: RawClient) -> None:
    for step in range(3):
        with RawClient(address_of(cluster, "SASL_PLAINTEXT"), "leaver") as wire:
            if step:
                wire.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            if step > 1:
                wire.send(SaslAuthenticateRequest(auth_bytes=b"\0ann\0wrong"), 2)
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    cluster.wait_until(lambda: not cluster.connections("leaver"))
    assert not cluster.problems


def test_max_connections_per_ip_counts_the_connections_of_all_listeners() -> None:
    config = {"max.connections.per.ip": 2}
    with KafkaCluster(1, listeners=["PLAINTEXT", "SASL_PLAINTEXT"], config=config) as cluster:
        first, second = (RawClient(address_of(cluster, name)) for name in ("PLAINTEXT", "SASL_PLAINTEXT"))
        first.call(MetadataRequest(topics=[]), 12)
        second.call(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
        with RawClient(address_of(cluster, "PLAINTEXT")) as one_more:
            assert one_more.is_closed_by_broker()
        for wire in (first, second):
            wire.close()


def test_silent_unauthenticated_connection_is_closed_after_max_idle() -> None:
    config = {"connections.max.idle.ms": 30}
    with (
        KafkaCluster(1, listeners=["SASL_PLAINTEXT"], config=config) as cluster,
        RawClient(address_of(cluster, "SASL_PLAINTEXT")) as silent,
    ):
        assert silent.is_closed_by_broker()


def test_failed_login_is_delayed_by_connection_failed_authentication_delay_ms() -> None:
    config = {"connection.failed.authentication.delay.ms": 80}
    with (
        KafkaCluster(1, listeners=["SASL_PLAINTEXT"], users=USERS, config=config) as cluster,
        RawClient(address_of(cluster, "SASL_PLAINTEXT")) as wire,
    ):
        assert log_in(wire, password="wrong").error_code == FAILED
        (entry,) = cluster.history.entries("SaslAuthenticate")
        assert entry.latency is not None
        assert entry.latency >= 0.079


def test_expected_broker_is_checked_only_after_authentication() -> None:
    """The SASL exchange ignores it, as in Apache Kafka (KIP-1242)."""
    expecting = ApiVersionsRequest(
        client_software_name="a", client_software_version="1", cluster_id="another", node_id=0
    )
    with (
        KafkaCluster(1, listeners=["SASL_PLAINTEXT"], users=USERS, as_version="4.4") as cluster,
        RawClient(address_of(cluster, "SASL_PLAINTEXT")) as wire,
    ):
        assert wire.call(expecting, 5).error_code == 0
        assert log_in(wire).error_code == 0
        assert name_of(wire.call(expecting, 5).error_code) == "REBOOTSTRAP_REQUIRED"
