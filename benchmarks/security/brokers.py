"""The brokers of `benchmarks.security`, each in a process of its own, with a way in for each of the ways."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs

from benchmarks.producer.brokers import KAFKA_FLAGS, KAFKA_PROPERTIES, Broker
from benchmarks.security.runs import PLAIN, SCRAM, TLS
from pykafka2 import KafkaAdminClient
from pykafka2.testing import KafkaCluster

USER, PASSWORD = "ann", "ann-secret"
Ways = Mapping[str, Mapping[str, Any]]
"""Each way's options, as pykafka2's clients take them."""


@attrs.frozen
class Secured:
    """A running broker: its topics, and how it is come by."""

    broker: Broker
    ways: Ways


@contextmanager
def running(name: str) -> Iterator[Secured]:
    """Apache Kafka or the bundled broker.  Raise KafkaUnavailable where Java or Maven is missing."""
    with _apache() if name == "apache" else _bundled() as ways:
        broker = Broker(ways[PLAIN]["bootstrap_servers"])
        try:
            yield Secured(broker, ways)
        finally:
            broker.close()


@contextmanager
def _bundled() -> Iterator[Ways]:
    listeners = {"PLAINTEXT": None, "SSL": None, "SASL_PLAINTEXT": None}
    with KafkaCluster(
        1, listeners=listeners, users={USER: PASSWORD}, process=True, history_entries=0
    ) as cluster:
        yield {
            PLAIN: cluster.options_for(listener="PLAINTEXT"),
            TLS: cluster.options_for(listener="SSL"),
            SCRAM: cluster.options_for(USER, listener="SASL_PLAINTEXT", mechanism=SCRAM),
        }


@contextmanager
def _apache() -> Iterator[Ways]:
    from tests.conformance.maven import kafka_jars
    from tests.conformance.real_kafka import RealKafka

    with TemporaryDirectory(prefix="security-benchmark-") as folder:
        certificate, ca_file = _certificate(Path(folder))
        with RealKafka(
            kafka_jars(), flags=KAFKA_FLAGS, extra=KAFKA_PROPERTIES, certificate=certificate
        ) as kafka:
            plain = {"bootstrap_servers": kafka.bootstrap_servers}
            with KafkaAdminClient(**plain) as admin:
                admin.upsert_scram_user(USER, PASSWORD, mechanism=SCRAM, iterations=4096)
            yield {
                PLAIN: plain,
                TLS: {
                    "bootstrap_servers": ",".join(kafka.tls_addresses),
                    "security_protocol": "SSL",
                    "ssl_cafile": str(ca_file),
                },
                SCRAM: {
                    "bootstrap_servers": ",".join(kafka.sasl_addresses),
                    "security_protocol": "SASL_PLAINTEXT",
                    "sasl_mechanism": SCRAM,
                    "sasl_username": USER,
                    "sasl_password": PASSWORD,
                },
            }


def _certificate(folder: Path) -> tuple[Path, Path]:
    """Return a broker's key and certificates as Java reads them, and what clients trust."""
    import trustme

    from tests.conformance.secured_peers import certificate_for_java

    authority = trustme.CA()
    issued, ca_file = folder / "broker.pem", folder / "ca.pem"
    authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(issued)
    authority.cert_pem.write_to_path(ca_file)
    return certificate_for_java(issued, folder), ca_file
