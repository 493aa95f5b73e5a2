"""One broker with security, on either side: Apache Kafka's and the bundled one, set up alike.

Listeners: PLAINTEXT, whose users may do everything; SASL_PLAINTEXT; SSL, where clients show certificates.
There are delegation tokens, and an authorizer whose super user is `ADMIN`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import trustme

from pykafka2 import DelegationToken, KafkaAdminClient
from pykafka2.testing import STANDARD_AUTHORIZER, KafkaCluster, Listener

from .brokers import eventually
from .maven import KafkaJars
from .real_kafka import RESTRICTED_PASSWORD, RESTRICTED_USER, SASL_PASSWORD, SASL_USER, RealKafka
from .secured_peers import certificate_for_java

USERS = {SASL_USER: SASL_PASSWORD, RESTRICTED_USER: RESTRICTED_PASSWORD}
TOKEN_KEY = "delegation.token.secret.key"
EXTRA = """\
{key}=of the tests
listener.name.ssl.ssl.client.auth=required
ssl.truststore.type=PEM
ssl.truststore.location={authority}
"""


@attrs.frozen
class Secured:
    """A running broker: its addresses by listener, the authority that it trusts, a certificate of that."""

    kind: str
    addresses: Mapping[str, str]
    ca_file: str
    certificate: str

    def options(self, listener: str, user: str | None = None, **others: Any) -> dict[str, Any]:
        """Options for a client of this listener; `others` replace and add."""
        options: dict[str, Any] = {
            "bootstrap_servers": self.addresses[listener],
            "security_protocol": listener,
        }
        if listener == "SSL":
            options |= {"ssl_cafile": self.ca_file, "ssl_certfile": self.certificate}
        if user is not None:
            options |= {
                "sasl_mechanism": "SCRAM-SHA-256",
                "sasl_username": user,
                "sasl_password": USERS.get(user, ""),
            }
        return options | others


def created_token(admin: KafkaAdminClient, **arguments: Any) -> DelegationToken:
    """A new delegation token that the broker knows."""
    token = admin.create_delegation_token(**arguments)
    eventually(lambda: token.token_id in [one.token_id for one in admin.describe_delegation_tokens()])
    return token


@contextmanager
def apache(jars: KafkaJars, folder: Path) -> Iterator[Secured]:
    """Apache Kafka, one node in a JVM of its own."""
    authority = trustme.CA()
    issued, ca_file, client = folder / "broker.pem", folder / "ca.pem", folder / "client.pem"
    authority.cert_pem.write_to_path(ca_file)
    authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(issued)
    authority.issue_cert("client.invalid").private_key_and_cert_chain_pem.write_to_path(client)
    with RealKafka(
        jars,
        authorizes=True,
        certificate=certificate_for_java(issued, folder),
        extra=EXTRA.format(key=TOKEN_KEY, authority=ca_file),
    ) as kafka:
        addresses = {"PLAINTEXT": kafka.bootstrap_servers}
        addresses |= {"SASL_PLAINTEXT": kafka.sasl_addresses[0], "SSL": kafka.tls_addresses[0]}
        with KafkaAdminClient(bootstrap_servers=addresses["PLAINTEXT"]) as admin:
            for user, password in USERS.items():
                admin.upsert_scram_user(user, password, mechanism="SCRAM-SHA-256", iterations=4096)
            eventually(lambda: all(admin.describe_scram_users([*USERS]).values()))
        yield Secured("apache", addresses, str(ca_file), str(client))


@contextmanager
def bundled() -> Iterator[Secured]:
    """The bundled broker, in this process."""
    listeners = {"PLAINTEXT": None, "SASL_PLAINTEXT": None, "SSL": Listener(client_auth="required")}
    config = {
        TOKEN_KEY: "of the tests",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": f"User:ANONYMOUS;User:{SASL_USER}",
    }
    with KafkaCluster(1, listeners=listeners, users=USERS, config=config) as cluster:
        addresses = {name: cluster.bootstrap_servers_of(name) for name in listeners}
        yield Secured("bundled", addresses, cluster.ca_file, cluster.client_certificate("ann"))
