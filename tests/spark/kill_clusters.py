"""The brokers that killed queries write to: bundled or Apache Kafka, open or with TLS, SASL and ACLs.

Every cluster has a PLAINTEXT listener without restrictions, for the campaign's own topics and its checker.
On a secured cluster the query uses SASL_SSL, as a user with the ACLs of docs/guides/spark-exactly-once.md.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import attrs

from pykafka2 import AclBinding, KafkaAdminClient
from tests.spark.kill_plans import APACHE, APACHE_SECURED, BUNDLED, BUNDLED_SECURED, OLDEST, OLDEST_SECURED

TOPICS, LEDGERS, TRANSACTIONS = "kills-", "ledger-of-kills-", "pykafka2-spark"
"""How the names begin that a query may use."""
USER, PASSWORD = "sink", "sink-secret"

RULES = (
    ("TOPIC", TOPICS, ("WRITE", "DESCRIBE")),
    ("TOPIC", LEDGERS, ("READ", "WRITE", "CREATE", "DESCRIBE")),
    ("TRANSACTIONAL_ID", TRANSACTIONS, ("WRITE", "DESCRIBE")),
)

APACHE_LISTENERS = """\
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SASL_SSL
listener.name.ssl.sasl.enabled.mechanisms=PLAIN
listener.name.ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
 user_{user}="{password}";
"""
"""Properties that make SASL_SSL of the listener named SSL."""


@attrs.frozen
class Brokers:
    """A running cluster.

    servers: the PLAINTEXT listener.
    options: what the query's clients need beyond bootstrap.servers, without `kafka.`.
    query_servers: the listener for the query, if it is another one.
    """

    servers: str
    options: Mapping[str, str] = attrs.field(factory=dict)
    query_servers: str = ""

    def kafka_options(self) -> dict[str, str]:
        """Return the query's options `kafka.*`."""
        options = {"bootstrap.servers": self.query_servers or self.servers, **self.options}
        return {f"kafka.{name}": value for name, value in options.items()}


@contextmanager
def running(name: str) -> Iterator[Brokers]:
    """Start the cluster of this name (kill_plans.CLUSTERS)."""
    starters = {
        BUNDLED: _bundled,
        APACHE: lambda: _apache(oldest=False),
        OLDEST: lambda: _apache(oldest=True),
        BUNDLED_SECURED: _bundled_secured,
        APACHE_SECURED: lambda: _apache_secured(oldest=False),
        OLDEST_SECURED: lambda: _apache_secured(oldest=True),
    }
    with starters[name]() as brokers:
        yield brokers


@contextmanager
def _bundled() -> Iterator[Brokers]:
    from pykafka2.testing import KafkaCluster

    with KafkaCluster(brokers=1, process=True) as cluster:
        yield Brokers(cluster.bootstrap_servers)


@contextmanager
def _bundled_secured() -> Iterator[Brokers]:
    from pykafka2.testing import STANDARD_AUTHORIZER, KafkaCluster, Listener

    with KafkaCluster(
        brokers=3,
        process=True,
        listeners={"PLAINTEXT": None, "SASL_SSL": Listener(mechanisms=["PLAIN"])},
        users={USER: PASSWORD},
        config={"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"},
    ) as cluster:
        servers = cluster.bootstrap_servers
        _allow(servers)
        yield Brokers(servers, _secured(cluster.ca_file), cluster.bootstrap_servers_of("SASL_SSL"))


@contextmanager
def _apache(*, oldest: bool) -> Iterator[Brokers]:
    from tests.conformance.maven import CURRENT, OLDEST, server_jars
    from tests.conformance.real_kafka import RealKafka

    with RealKafka(server_jars(OLDEST if oldest else CURRENT)) as kafka:
        yield Brokers(kafka.bootstrap_servers)


@contextmanager
def _apache_secured(*, oldest: bool) -> Iterator[Brokers]:
    import trustme

    from tests.conformance.maven import CURRENT, OLDEST, server_jars
    from tests.conformance.real_kafka import RealKafka
    from tests.conformance.secured_peers import certificate_for_java

    authority = trustme.CA()
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        folder = Path(name)
        issued, ca_file = folder / "broker.pem", folder / "ca.pem"
        authority.cert_pem.write_to_path(ca_file)
        authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(issued)
        with RealKafka(
            server_jars(OLDEST if oldest else CURRENT),
            brokers=3,
            authorizes=True,
            certificate=certificate_for_java(issued, folder),
            extra=APACHE_LISTENERS.format(user=USER, password=PASSWORD),
        ) as kafka:
            servers = kafka.bootstrap_servers
            _allow(servers)
            yield Brokers(servers, _secured(str(ca_file)), ",".join(kafka.tls_addresses))


def _secured(ca_file: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": ca_file,
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }


def _allow(servers: str) -> None:
    bindings = [
        AclBinding(kind, prefix, "PREFIXED", f"User:{USER}", "*", operation, "ALLOW")
        for kind, prefix, operations in RULES
        for operation in operations
    ]
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_acls(bindings)
