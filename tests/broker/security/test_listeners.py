"""Several listeners of each broker: their advertised addresses, ports, TLS and authentication."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykafka2 import KafkaProducer
from pykafka2.errors import ConfigurationError, IllegalState
from pykafka2.network.tls import TlsContext
from pykafka2.protocol.messages.cluster import DescribeClusterRequest
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.testing import KafkaCluster, Listener
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import produce_request
from tests.broker.support.raw_client import RawClient
from tests.broker.support.sasl import USERS, address_of, log_in

LISTENERS = {
    "PLAINTEXT": None,
    "SASL_PLAINTEXT": None,
    "EXTERNAL": Listener(
        "SASL_PLAINTEXT", advertised_host="kafka-{id}.test", advertised_ports=[19092, 19093]
    ),
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(2, {"t": 2}, listeners=LISTENERS, users=USERS) as cluster:
        yield cluster


def addresses(cluster: KafkaCluster, listener: str) -> list[tuple[str, int]]:
    if listener == "EXTERNAL":
        return [("kafka-0.test", 19092), ("kafka-1.test", 19093)]
    found = [one.rpartition(":") for one in cluster.bootstrap_servers_of(listener).split(",")]
    return [(host, int(port)) for host, _, port in found]


@pytest.mark.parametrize("listener", LISTENERS)
def test_responses_have_the_advertised_addresses_of_the_listener(
    cluster: KafkaCluster, listener: str
) -> None:
    expected = addresses(cluster, listener)
    with RawClient(address_of(cluster, listener, 1)) as wire:
        if listener != "PLAINTEXT":
            log_in(wire)
        for request in (MetadataRequest(topics=None), MetadataRequest(topics=[])):
            brokers = wire.call(request, 12).brokers
            assert [(one.host, one.port) for one in brokers] == expected
        described = wire.call(DescribeClusterRequest(include_cluster_authorized_operations=False), 1).brokers
        assert [(one.host, one.port) for one in described] == expected
        old = wire.call(FindCoordinatorRequest(key="g"), 3)
        assert (old.host, old.port) in expected
        (new,) = wire.call(FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinators
        assert (new.host, new.port) in expected
        # The current leader in the response of another broker.
        wrong = next(number for number in (0, 1) if cluster.partition("t", number).leader == 0)
        response = wire.call(produce_request("t", wrong, batch([b"x"])), 12)
        (hint,) = response.node_endpoints
        assert (hint.host, hint.port) == expected[0]


def test_first_listener_is_the_address_of_the_broker(cluster: KafkaCluster) -> None:
    assert cluster.bootstrap_servers == cluster.bootstrap_servers_of("PLAINTEXT")
    broker = cluster.broker(1)
    assert [one.name for one in broker.listeners] == list(LISTENERS)
    text = broker.config.text("advertised.listeners")
    assert text is not None
    assert text.endswith("EXTERNAL://kafka-1.test:19093")
    assert broker.config.text("listener.security.protocol.map") == (
        "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,EXTERNAL:SASL_PLAINTEXT"
    )
    with pytest.raises(ConfigurationError, match="did you mean 'PLAINTEXT'"):
        cluster.bootstrap_servers_of("PLAINTXT")


def test_listeners_keep_their_ports_over_a_restart() -> None:
    with KafkaCluster(1, listeners=["PLAINTEXT", "SASL_PLAINTEXT"], users=USERS) as cluster:
        before = [cluster.bootstrap_servers_of(name) for name in ("PLAINTEXT", "SASL_PLAINTEXT")]
        cluster.controls.restart_broker(0)
        assert [cluster.bootstrap_servers_of(name) for name in ("PLAINTEXT", "SASL_PLAINTEXT")] == before
        with RawClient(before[1]) as wire:
            assert log_in(wire).error_code == 0


def test_occupied_port_leaves_no_listener_open(cluster: KafkaCluster) -> None:
    taken = int(cluster.bootstrap_servers.split(",")[0].rpartition(":")[2])
    other = KafkaCluster(1, listeners={"PLAINTEXT": None, "INTERNAL": Listener("PLAINTEXT", ports=[taken])})
    with pytest.raises(ConfigurationError, match="choose another port"):
        other.start()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"listeners": []}, "Set at least one"),
        ({"listeners": "PLAINTEXT"}, "Set a dict"),
        ({"listeners": ["PLAINTEXT", "PLAINTEXT"]}, "names 'PLAINTEXT' twice"),
        ({"listeners": ["SASL"]}, "is not a security protocol"),
        ({"listeners": {"a b": None}}, "no name"),
        ({"listeners": {"X": Listener("SSLL")}}, "did you mean 'SSL'"),
        ({"listeners": {"SSL": {"port": [1]}}}, "did you mean 'ports'"),
        ({"listeners": {"SSL": 9092}}, "Set a Listener"),
        ({"listeners": {"PLAINTEXT": Listener(ports=[1])}}, "3 brokers need 3"),
        ({"listeners": {"PLAINTEXT": Listener(mechanisms=["PLAIN"])}}, "mechanisms are for"),
        ({"listeners": {"SASL_SSL": Listener(mechanisms=["SCRAM-SHA-1"])}}, "did you mean 'SCRAM-SHA-"),
        ({"listeners": {"SASL_SSL": Listener(mechanisms="PLAIN")}}, "Set a list"),
        ({"listeners": {"SASL_PLAINTEXT": Listener(client_auth="required")}}, "client_auth is for SSL"),
        ({"listeners": {"SSL": Listener(client_auth="require")}}, "did you mean 'required'"),
        ({"listeners": {"SASL_SSL": Listener(max_reauth_ms=-1)}}, "Set milliseconds"),
        ({"listeners": ["SSL"], "tls": False}, "listeners with TLS"),
        ({"listeners": ["PLAINTEXT"], "tls": True}, "none of the listeners PLAINTEXT has TLS"),
        ({"users": ["ann"]}, "users is illegal. Set a dict"),
        ({"users": {"ann": ""}}, "'ann' needs a name and a password"),
        ({"users": {"": "x"}}, "needs a name and a password"),
        ({"token_key": ""}, "token_key is illegal. Set the text"),
        ({"listeners": {"SSL": Listener(client_auth="required")}, "tls": {"cert_file": "x"}}, "ca_file"),
        ({"config": {"sasl.enabled.mechanisms": "GSSAPI"}}, "must be one of"),
        ({"config": {"inter.broker.listener.name": "PLAINTEXT"}}, "over links of their own"),
        ({"config": {"security.inter.broker.protocol": "SSL"}}, "KafkaCluster"),
        ({"config": {"ssl.principal.mapping.rules": "RULE:x"}, "listeners": ["SSL"]}, "is invalid"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_listener_argument_is_rejected_by_name(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        KafkaCluster(**arguments)  # type: ignore[arg-type]


def test_options_for_returns_the_options_of_a_user_and_a_listener(cluster: KafkaCluster) -> None:
    options = cluster.options_for("ann")
    assert options == {
        "bootstrap_servers": cluster.bootstrap_servers_of("SASL_PLAINTEXT"),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_username": "ann",
        "sasl_password": "ann-secret",
    }
    assert cluster.client_options == {"bootstrap_servers": cluster.bootstrap_servers}
    with pytest.raises(ConfigurationError, match="Listener PLAINTEXT has no SASL"):
        cluster.options_for("ann", listener="PLAINTEXT")
    with pytest.raises(ConfigurationError, match=r"password of 'anna'.*did you mean 'ann'"):
        cluster.options_for("anna")
    with pytest.raises(ConfigurationError, match="did you mean 'PLAIN'"):
        cluster.options_for("ann", mechanism="PLANE")
    with pytest.raises(IllegalState, match="tls=True"):
        cluster.client_certificate("ann")


@pytest.fixture(scope="module")
def with_tls() -> Iterator[KafkaCluster]:
    listeners = {
        "SSL": Listener(client_auth="requested"),
        "STRICT": Listener("SSL", client_auth="required"),
        "SASL_SSL": None,
    }
    rules = "RULE:^CN=(.*?),OU=clients,O=pykafka2$/$1/L,DEFAULT"
    config = {"ssl.principal.mapping.rules": rules}
    with KafkaCluster(1, {"t": 1}, listeners=listeners, users=USERS, config=config) as cluster:
        yield cluster


def tls_of(cluster: KafkaCluster, name: str | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=cluster.ca_file)
    if name is not None:
        context.load_cert_chain(cluster.client_certificate(name))
    return context


def principals(cluster: KafkaCluster) -> list[str]:
    return [one.principal for one in cluster.connections()]


@pytest.mark.slow
def test_client_certificate_sets_the_principal(with_tls: KafkaCluster) -> None:
    with RawClient(address_of(with_tls, "SSL"), tls=tls_of(with_tls)) as wire:
        wire.call(MetadataRequest(topics=[]), 12)
        assert principals(with_tls) == ["User:ANONYMOUS"]
    for listener in ("SSL", "STRICT"):
        with RawClient(address_of(with_tls, listener), tls=tls_of(with_tls, "Ann")) as wire:
            wire.call(MetadataRequest(topics=[]), 12)
            assert "User:ann" in principals(with_tls)


def test_client_certificate_has_an_alternative_name_as_java_requires(with_tls: KafkaCluster) -> None:
    from cryptography import x509

    (certificate, *_) = x509.load_pem_x509_certificates(Path(with_tls.client_certificate("Ann")).read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert len(list(names)) == 1


@pytest.mark.slow
def test_sasl_sets_the_principal_despite_a_client_certificate(with_tls: KafkaCluster) -> None:
    with RawClient(address_of(with_tls, "SASL_SSL"), tls=tls_of(with_tls, "Bob")) as wire:
        assert log_in(wire, "ann", "SCRAM-SHA-512").error_code == 0
        wire.call(MetadataRequest(topics=[]), 12)
        assert "User:ann" in principals(with_tls)


@pytest.mark.slow
def test_missing_or_untrusted_client_certificate_is_rejected(
    with_tls: KafkaCluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    import trustme

    file = tmp_path_factory.mktemp("stranger") / "eve.pem"
    stranger = trustme.CA().issue_cert(common_name="ann")
    stranger.private_key_and_cert_chain_pem.write_to_path(file)
    eve = tls_of(with_tls)
    eve.load_cert_chain(file)
    assert is_refused(with_tls, "STRICT", tls_of(with_tls))
    assert is_refused(with_tls, "STRICT", eve)
    assert is_refused(with_tls, "SSL", eve)
    assert not is_refused(with_tls, "STRICT", tls_of(with_tls, "ann"))


def is_refused(cluster: KafkaCluster, listener: str, context: ssl.SSLContext) -> bool:
    try:
        with RawClient(address_of(cluster, listener), tls=context) as wire:
            wire.call(MetadataRequest(topics=[]), 12)
    except (ssl.SSLError, ConnectionError):
        return True  # with TLS 1.3 only the first read fails
    return False


@pytest.mark.slow
def test_certificate_without_a_matching_mapping_rule_is_rejected() -> None:
    listeners = {"SSL": Listener(client_auth="required")}
    config = {"ssl.principal.mapping.rules": "RULE:^CN=ann,.*$/ann/"}
    with KafkaCluster(1, listeners=listeners, config=config) as cluster:
        assert is_refused(cluster, "SSL", tls_of(cluster, "eve"))
        assert not is_refused(cluster, "SSL", tls_of(cluster, "ann"))


@pytest.mark.slow
def test_certificates_are_rotated_under_open_connections(with_tls: KafkaCluster) -> None:
    def serial(wire: RawClient) -> object:
        shown = wire.socket.getpeercert()  # type: ignore[attr-defined]
        return shown["serialNumber"]

    address = address_of(with_tls, "SSL")
    with RawClient(address, tls=tls_of(with_tls)) as before:
        with_tls.rotate_certificates()
        with RawClient(address, tls=tls_of(with_tls)) as after:
            assert serial(before) != serial(after)
            for wire in (before, after):
                wire.call(MetadataRequest(topics=[]), 12)


@pytest.mark.gate
@pytest.mark.slow
def test_listeners_users_and_certificates_of_a_cluster_in_another_process() -> None:
    listeners = {"SASL_SSL": None, "SSL": {"client_auth": "required"}}
    with KafkaCluster(1, {"t": 1}, listeners=listeners, users=USERS, process=True) as cluster:
        cluster.controls.add_user("carl", "carl-secret")
        for user, password in (("ann", None), ("carl", "carl-secret")):
            with KafkaProducer(**cluster.options_for(user, password=password)) as producer:
                producer.send("t", b"x").result(20)
                assert {one.principal for one in cluster.connections()} == {f"User:{user}"}
        cluster.rotate_certificates()
        with KafkaProducer(**cluster.options_for(certificate="ann", listener="SSL")) as producer:
            producer.send("t", b"x").result(20)
            assert {one.principal for one in cluster.connections()} == {"User:CN=ann,OU=clients,O=pykafka2"}


def test_context_without_client_certificates_is_rejected_for_required_client_auth() -> None:
    """Otherwise the listener would accept clients without a certificate."""
    context = TlsContext(verify=False, server_side=True)
    for wanted in ("required", "requested"):
        with pytest.raises(ConfigurationError, match=f"client_auth='{wanted}', but the TlsContext"):
            KafkaCluster(1, tls=context, listeners={"SSL": Listener(client_auth=wanted)})
    with pytest.raises(ConfigurationError, match="asks for no certificate"):
        KafkaCluster(1, tls=context, config={"ssl.client.auth": "required"})
