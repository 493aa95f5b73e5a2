"""A cluster that listens with TLS."""

from __future__ import annotations

import socket
import ssl
import tempfile
import threading
from pathlib import Path

import confluent_kafka.admin
import pytest
import trustme

from pykafka2.errors import ConfigurationError, IllegalState, KafkaError
from pykafka2.network.tls import TlsContext
from pykafka2.producer.producer import KafkaProducer
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.testing import KafkaCluster, Listener
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import fetch, produce
from tests.broker.support.raw_client import RawClient

METADATA = MetadataRequest(topics=None)


@pytest.mark.gate
@pytest.mark.slow
def test_clients_speak_tls_and_plaintext_costs_its_one_connection(tmp_path: Path) -> None:
    before = set(threading.enumerate())  # such as those of a cluster that other tests share
    authority = trustme.CA()
    certificate = tmp_path / "broker.pem"
    authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(certificate)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    tls = TlsContext(cert_file=str(certificate), verify=False, server_side=True)
    with KafkaCluster(brokers=2, topics={"t": 1}, tls=tls) as cluster:
        address = cluster.brokers[cluster.partition("t", 0).leader].address
        with RawClient(address, tls=client) as wire, RawClient(address) as plain:
            assert len(wire.call(METADATA, 12).brokers) == 2
            plain.send(METADATA, 12)
            # The broker may say in TLS what is wrong before it closes.
            while plain.socket.recv(1000):
                pass
            large = batch([b"x" * 900_000])
            assert produce(wire, "t", 0, large).error_code == 0
            records = fetch(wire, "t", 0, 0, partition_max_bytes=1 << 20).records
            assert records is not None
            assert bytes(records[16:]) == large[16:]
        with pytest.raises(ssl.SSLCertVerificationError):
            RawClient(address, tls=ssl.create_default_context())
        with RawClient(address, tls=client) as again:
            again.call(METADATA, 12)
    assert [one.name for one in set(threading.enumerate()) - before if "kafka" in one.name] == []


@pytest.mark.slow
@pytest.mark.parametrize("process", [False, pytest.param(True, marks=pytest.mark.gate)])
def test_tls_true_makes_a_throw_away_authority(process: bool) -> None:
    """Our client and librdkafka's connect with what the cluster says; the files go with it, and come
    again."""
    made = KafkaCluster(brokers=2, topics={"t": 1}, tls=True, process=process)
    for _ in range(2):
        with made as cluster:
            assert set(cluster.client_options) == {"bootstrap_servers", "security_protocol", "ssl_cafile"}
            with KafkaProducer(**cluster.client_options) as producer:
                producer.send("t", b"secret").result(timeout=60)
            assert cluster.log("t", 0).values() == [b"secret"]
            assert oct(Path(cluster.ca_file).parent.stat().st_mode)[-3:] == "700", (
                "no other user reads the key"
            )
            other = confluent_kafka.admin.AdminClient(
                {
                    "bootstrap.servers": cluster.bootstrap_servers,
                    "security.protocol": "ssl",
                    "ssl.ca.location": cluster.ca_file,
                }
            )
            assert len(other.list_topics(timeout=10).brokers) == 2
            del other
            folder = Path(cluster.ca_file).parent
        assert not folder.exists()
        with pytest.raises(IllegalState, match="while the cluster runs"):
            made.ca_file  # noqa: B018


def test_brokers_with_tls_true_may_listen_on_another_address() -> None:
    with KafkaCluster(brokers=2, tls=True, host="127.0.0.2") as cluster:
        client = ssl.create_default_context(cafile=cluster.ca_file)
        with RawClient(cluster.brokers[0].address, tls=client) as wire:
            assert len(wire.call(METADATA, 12).brokers) == 2


def test_a_cluster_that_does_not_start_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(KafkaError):
        KafkaCluster(brokers=1, tls=True, ports=[taken.getsockname()[1]]).start()
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("tls", [None, False])
def test_ca_file_without_an_authority_raises_illegal_state(tls: bool | None) -> None:
    with KafkaCluster(brokers=1, tls=tls) as cluster:
        assert cluster.client_options == {"bootstrap_servers": cluster.bootstrap_servers}
        with pytest.raises(IllegalState, match="Start it with tls=True"):
            cluster.ca_file  # noqa: B018


@pytest.mark.gate
@pytest.mark.slow
def test_files_are_enough_in_another_process_too(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = tmp_path / "broker.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(certificate)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    files = {"cert_file": str(certificate)}
    with (
        KafkaCluster(brokers=1, tls=files, process=True) as cluster,
        RawClient(cluster.brokers[0].address, tls=client) as wire,
    ):
        assert len(wire.call(METADATA, 12).brokers) == 1
    with pytest.raises(ConfigurationError, match="no argument 'certfile'; did you mean 'cert_file'"):
        KafkaCluster(tls={"certfile": str(certificate)})
    with pytest.raises(ConfigurationError, match=r"to another process\. Set tls=True or"):
        KafkaCluster(tls=TlsContext(cert_file=str(certificate), server_side=True, verify=False), process=True)


@pytest.mark.gate
@pytest.mark.slow
def test_reload_certificates_reloads_the_file_of_the_trusted_authority(tmp_path: Path) -> None:
    """Clients of the replaced authority are refused, also those whose TLS session could be resumed."""
    old, new, brokers = trustme.CA(), trustme.CA(), trustme.CA()
    ca_file, cert_file = tmp_path / "ca.pem", tmp_path / "broker.pem"
    brokers.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(cert_file)
    old.cert_pem.write_to_path(ca_file)

    def client_of(authority: trustme.CA) -> ssl.SSLContext:
        context = ssl.create_default_context()
        brokers.configure_trust(context)
        authority.issue_cert("client.invalid").configure_cert(context)
        return context

    before, after = client_of(old), client_of(new)
    files = {"cert_file": str(cert_file), "ca_file": str(ca_file)}
    listeners = {"SSL": None, "OTHER": Listener("SSL")}
    with KafkaCluster(brokers=2, tls=files, listeners=listeners) as cluster:
        servers = [cluster.bootstrap_servers_of(name) for name in listeners]
        addresses = ",".join(servers).split(",")
        with RawClient(addresses[0], tls=before) as open_before:
            open_before.call(METADATA, 12)
            assert all(_is_refused(address, after) for address in addresses)
            new.cert_pem.write_to_path(ca_file)
            cluster.controls.reload_certificates()
            for address in addresses:
                assert _is_refused(address, before)
                assert not _is_refused(address, after)
            open_before.call(METADATA, 12)
        ca_file.write_text("no certificate")
        with pytest.raises(ConfigurationError, match=r"ca\.pem"):
            cluster.controls.reload_certificates()
        assert not _is_refused(addresses[0], after)


def _is_refused(address: str, context: ssl.SSLContext) -> bool:
    try:
        with RawClient(address, tls=context) as wire:
            wire.call(METADATA, 12)
    except (ssl.SSLError, ConnectionError):
        return True  # with TLS 1.3 only the first read tells
    return False
