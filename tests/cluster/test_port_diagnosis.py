"""Ports that do not match security_protocol are detected at once, by a probe, and named in the error."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pykafka2 import KafkaProducer, errors
from pykafka2.cluster.client import ClusterClient
from pykafka2.cluster.port_diagnosis import MOST_PROBES, PortDiagnosis
from pykafka2.errors import Disconnected, IllegalSaslState, TlsInterrupted, TlsNotSpoken
from pykafka2.network.endpoint import Endpoint
from pykafka2.network.port_probe import Phase, ProbeTransport, TlsSpoken, probe_after
from pykafka2.network.transport import SocketOptions
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.sasl import SaslHandshakeRequest, SaslHandshakeResponse
from pykafka2.testing import KafkaCluster, Simulation
from tests.cluster.scripted import BOOTSTRAP, Drop, Network, ScriptedBroker, ScriptedCluster, Transport
from tests.network.wire import api_versions_response

HERE, THERE = Endpoint("10.0.0.1", 9092), Endpoint("10.0.0.2", 9092)
LOST, HUNG_UP = Disconnected("closed"), TlsInterrupted("hung up")


PHASES = {
    Phase.TLS_HANDSHAKE: HUNG_UP,
    Phase.PLAINTEXT_HANDSHAKE: LOST,
    Phase.UNAUTHENTICATED_REQUESTS: LOST,
}
"""Each phase with an error that a port of another security protocol ends it with."""


def run_probe(phase: Phase, *responses: Any) -> None:
    probe = probe_after(PHASES[phase], phase)
    assert probe is not None
    script: Any = probe.script("node 1")
    for response in (None, *responses):
        script.send(response)
    raise AssertionError("the probe did not raise")


def test_port_that_responds_without_tls_is_a_plaintext_port() -> None:
    with pytest.raises(TlsNotSpoken, match=r"node 1 speaks Kafka's protocol without TLS.*security_protocol="):
        run_probe(Phase.TLS_HANDSHAKE, api_versions_response())


def test_port_that_completes_the_tls_handshake_is_a_tls_port() -> None:
    with pytest.raises(TlsSpoken, match="node 1 speaks TLS on this port"):
        run_probe(Phase.PLAINTEXT_HANDSHAKE)


def test_each_phase_is_probed_after_its_own_errors_only() -> None:
    transports = {phase: probe.transport for phase in Phase if (probe := probe_after(PHASES[phase], phase))}
    assert transports == {
        Phase.TLS_HANDSHAKE: ProbeTransport.PLAINTEXT,
        Phase.PLAINTEXT_HANDSHAKE: ProbeTransport.UNVERIFIED_TLS,
        Phase.UNAUTHENTICATED_REQUESTS: ProbeTransport.SAME,
    }
    for error in (errors.TlsCertificateRejected("expired"), errors.TlsHostNameMismatch("another name")):
        probe = probe_after(error, Phase.TLS_HANDSHAKE)
        assert probe is not None
        assert probe.transport is ProbeTransport.UNVERIFIED_TLS
        assert probe_after(error, Phase.PLAINTEXT_HANDSHAKE) is None
    for phase in Phase:
        assert probe_after(errors.CorruptResponse("HTTP"), phase) is None
        timeout = errors.RequestTimeout("late")  # a listener can wait for the rest of a strange request
        assert probe_after(timeout, phase) is probe_after(PHASES[phase], phase)
    assert probe_after(LOST, Phase.TLS_HANDSHAKE) is None


def test_probe_reports_the_sasl_mechanisms_or_their_absence() -> None:
    offer = SaslHandshakeResponse(error_code=33, mechanisms=["PLAIN", "X"])
    with pytest.raises(
        IllegalSaslState, match=r"node 1 requires SASL authentication \(PLAIN, X\) .*\. Set security_protoc"
    ):
        run_probe(Phase.UNAUTHENTICATED_REQUESTS, api_versions_response(), offer)
    offer = SaslHandshakeResponse(error_code=34, mechanisms=[])
    with pytest.raises(Disconnected, match="node 1 closed"):
        run_probe(Phase.UNAUTHENTICATED_REQUESTS, api_versions_response(), offer)


def test_probe_result_other_than_a_mismatch_keeps_the_original_error() -> None:
    diagnosis = PortDiagnosis(has_sasl=False)
    assert diagnosis.begin(HERE) is None
    assert diagnosis.closed(HUNG_UP, was_unanswered=None) is HUNG_UP
    verdict = TlsNotSpoken("plaintext")
    for _ in range(2):
        diagnosis.resolved()
        probe = diagnosis.begin(HERE)
        assert probe is not None
        assert probe.transport is ProbeTransport.PLAINTEXT
        assert diagnosis.closed(verdict, was_unanswered=None) is verdict
    diagnosis.resolved()
    diagnosis.begin(HERE)
    assert diagnosis.closed(errors.CorruptResponse("HTTP"), was_unanswered=None) is HUNG_UP
    assert diagnosis.begin(HERE) is None


def test_an_address_is_probed_for_itself_alone() -> None:
    diagnosis = PortDiagnosis(has_sasl=False)
    diagnosis.begin(HERE)
    diagnosis.closed(HUNG_UP, was_unanswered=None)
    assert diagnosis.begin(THERE) is None
    assert diagnosis.begin(HERE) is not None
    for number in range(MOST_PROBES):
        diagnosis.begin(Endpoint(f"10.0.1.{number}", 9092))
        diagnosis.closed(HUNG_UP, was_unanswered=None)
    assert diagnosis.begin(HERE) is None, "a name that has others each time takes no more memory"


def test_mismatch_of_one_address_is_reported_unless_another_serves() -> None:
    diagnosis, verdict = PortDiagnosis(has_sasl=False), TlsNotSpoken("plaintext")
    diagnosis.begin(HERE)
    diagnosis.closed(HUNG_UP, was_unanswered=None)
    diagnosis.begin(HERE)
    assert diagnosis.closed(verdict, was_unanswered=None) is verdict
    diagnosis.begin(THERE)
    assert diagnosis.closed(LOST, was_unanswered=None) is verdict
    diagnosis.begin(THERE)
    assert diagnosis.closed(LOST, was_unanswered=False) is LOST


def test_restarts_are_not_probed() -> None:
    diagnosis = PortDiagnosis(has_sasl=False)
    for was_unanswered in (True, False, True, None, False):
        assert diagnosis.begin(HERE) is None
        assert diagnosis.closed(LOST, was_unanswered=was_unanswered) is LOST
    for _ in range(2):
        assert diagnosis.begin(HERE) is None
        diagnosis.closed(LOST, was_unanswered=True)
    assert diagnosis.begin(HERE) is not None
    with_sasl = PortDiagnosis(has_sasl=True)
    for _ in range(3):
        assert with_sasl.begin(HERE) is None
        with_sasl.closed(LOST, was_unanswered=True)


def test_client_without_sasl_on_a_sasl_port_raises_within_a_second(
    simulation: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = simulation.cluster(
        brokers=1, topics=["t"], listeners=["SASL_PLAINTEXT"], users={"ann": "ann-secret"}
    )
    servers = cluster.bootstrap_servers_of("SASL_PLAINTEXT")
    runtime = simulation.runtime.at("client")
    began = runtime.clock.monotonic()
    words = rf"{servers} requires SASL authentication .*SCRAM-SHA-256"
    with (
        caplog.at_level(logging.WARNING),
        KafkaProducer(bootstrap_servers=servers, runtime=runtime) as producer,
    ):
        for _ in range(2):
            with pytest.raises(IllegalSaslState, match=words):
                producer.send("t", b"x")
    assert runtime.clock.monotonic() - began < 2.0
    assert sum("requires SASL authentication" in record.getMessage() for record in caplog.records) == 1


def test_tls_to_a_plaintext_port_raises_at_once() -> None:
    with KafkaCluster(1) as cluster:
        options: Any = {"bootstrap_servers": cluster.bootstrap_servers, "security_protocol": "SSL"}
        with (
            KafkaProducer(**options) as producer,
            pytest.raises(TlsNotSpoken, match=cluster.bootstrap_servers),
        ):
            producer.send("t", b"x")
        assert {type(request).__name__ for request in cluster.history.requests()} == {"ApiVersionsRequest"}


class Addresses(Network):
    """A name with several addresses in this order, and what listens at each."""

    def __init__(self, kinds: dict[str, str], broker: ScriptedBroker) -> None:
        super().__init__()
        self.kinds = kinds
        self.broker = broker

    def resolve(self, host: str, port: int, *, canonical: bool = False) -> list[Endpoint]:
        is_bootstrap = f"{host}:{port}" == BOOTSTRAP
        return [Endpoint(address, port) for address in self.kinds] if is_bootstrap else [Endpoint(host, port)]

    def connect(
        self,
        endpoint: Endpoint,
        *,
        options: SocketOptions,
        tls: object = None,
        server_name: str | None = None,
    ) -> Transport:
        kind = self.kinds.get(endpoint.host, "TLS")
        if kind == "nothing":
            return Transport(self, None, str(endpoint))
        hangs_up = {"plaintext": tls is not None, "TLS": tls is None}.get(kind, True)
        return (HangsUp if hangs_up else Transport)(self, self.broker, str(endpoint))


class HangsUp(Transport):
    """A connection to a port of the other kind."""

    def establish(self) -> bool:
        raise TlsInterrupted(f"{self.peer} hung up")


def connecting_to(kinds: dict[str, str], **options: Any) -> tuple[ScriptedCluster, ClusterClient]:
    cluster = ScriptedCluster(topics={"t": [0]})
    cluster.runtime.network = Addresses(kinds, cluster.brokers[0])
    return cluster, cluster.client(**options)


@pytest.mark.parametrize("kind", ["plaintext", "hangs up"])
def test_address_that_closes_connections_does_not_block_the_others_of_its_name(kind: str) -> None:
    _, client = connecting_to({"first": kind, "second": "TLS"}, security_protocol="SSL")
    for _ in range(3):
        assert client.wait_for_metadata(client.metadata.version, 1)
        client.nodes.rebootstrap()
    client.close()


@pytest.mark.parametrize("kinds", [("nothing", "plaintext"), ("plaintext", "nothing"), ("plaintext",) * 2])
def test_tls_to_a_plaintext_port_raises_for_each_address_order(kinds: tuple[str, str]) -> None:
    cluster, client = connecting_to({"first": kinds[0], "second": kinds[1]}, security_protocol="SSL")
    for _ in range(2):
        with pytest.raises(TlsNotSpoken):
            client.wait_for_topic("t", 5)
    assert cluster.now - 1000 < 2
    client.close()


@pytest.mark.parametrize("kinds", [("nothing", "plaintext"), ("plaintext", "nothing")])
def test_client_without_sasl_raises_illegal_sasl_state_for_each_address_order(kinds: tuple[str, str]) -> None:
    cluster, client = connecting_to({"first": kinds[0], "second": kinds[1]})
    cluster.on(MetadataRequest, lambda request, broker: Drop())
    offer = SaslHandshakeResponse(error_code=33, mechanisms=["PLAIN"])
    cluster.on(SaslHandshakeRequest, lambda request, broker: offer)
    with pytest.raises(IllegalSaslState, match=r"\(PLAIN\)"):
        client.wait_for_topic("t", 5)
    client.close()
