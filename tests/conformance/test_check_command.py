"""`pykafka2 check` as typed, on the bundled broker and on Apache Kafka: good clusters and usual mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trustme

from pykafka2 import KafkaAdminClient
from pykafka2.admin import NewTopic
from tests.cli.typed import in_terminal, pykafka2
from tests.ports import closed_port

from .brokers import Cluster
from .real_kafka import SASL_PASSWORD, SASL_USER
from .secured_clusters import Secured


def checked(servers: str, **options: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and the printed JSON."""
    words = [word for name, value in options.items() for word in ("-X", f"{name}={value}")]
    ended = pykafka2("check", "-b", servers, "--json", "--timeout", "10", *words)
    assert ended.stdout, ended.stderr
    return ended.returncode, json.loads(ended.stdout)


def failed_steps(result: dict[str, Any]) -> dict[str, str]:
    """Address and name of each failed step, with its cause."""
    return {
        f"{broker['address']} {step['name']}": step["detail"]
        for broker in result["brokers"]
        for step in broker["steps"]
        if step["status"] == "failed"
    }


def test_three_good_brokers_pass_every_step(cluster: Cluster) -> None:
    code, result = checked(cluster.bootstrap_servers)
    assert (code, failed_steps(result)) == (0, {})
    assert [broker["bootstrap"] for broker in result["brokers"]] == [True] * 3
    for broker in result["brokers"]:
        steps = {step["name"]: step["status"] for step in broker["steps"]}
        assert steps["metadata"] == steps["identity"] == steps["api_versions"] == "ok"
    assert {step["name"]: step["status"] for step in result["steps"]}["clock"] == "ok"


def test_wrong_port_beside_a_good_broker(cluster: Cluster) -> None:
    wrong = f"127.0.0.1:{closed_port()}"
    code, result = checked(f"{cluster.bootstrap_servers.partition(',')[0]},{wrong}")
    assert code == 1
    assert list(failed_steps(result)) == [f"{wrong} port"]


def test_table_in_a_terminal(cluster: Cluster) -> None:
    code, shown = in_terminal("check", "-b", cluster.bootstrap_servers)
    assert code == 0
    assert "All 3 addresses passed." in shown


def test_tls_certificate_has_names_and_dates(secured: Secured) -> None:
    code, result = checked(
        secured.addresses["SSL"],
        security_protocol="SSL",
        ssl_cafile=secured.ca_file,
        ssl_certfile=secured.certificate,
    )
    assert (code, failed_steps(result)) == (0, {})
    tls = next(step for step in result["brokers"][0]["steps"] if step["name"] == "tls")
    assert "127.0.0.1" in tls["detail"]


def test_wrong_authority_is_named(secured: Secured, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    code, result = checked(secured.addresses["SSL"], security_protocol="SSL", ssl_cafile=str(other))
    assert code == 1
    assert "authority is not trusted" in failed_steps(result)[f"{secured.addresses['SSL']} tls"]


def test_missing_client_certificate_is_named(secured: Secured) -> None:
    code, result = checked(secured.addresses["SSL"], security_protocol="SSL", ssl_cafile=secured.ca_file)
    assert code == 1
    (cause,) = failed_steps(result).values()
    assert "certificate" in cause


@pytest.mark.parametrize(
    ("protocol", "listener", "cause"),
    [
        ("SSL", "PLAINTEXT", "without TLS"),
        ("PLAINTEXT", "SSL", "speaks TLS"),
        ("PLAINTEXT", "SASL_PLAINTEXT", "requires SASL"),
    ],
)
def test_protocol_of_another_listener_is_named(
    secured: Secured, protocol: str, listener: str, cause: str
) -> None:
    code, result = checked(secured.addresses[listener], security_protocol=protocol)
    assert code == 1
    assert cause in " ".join(failed_steps(result).values())


@pytest.mark.parametrize(("password", "expected"), [(SASL_PASSWORD, 0), ("wrong", 1)])
def test_password_is_checked(secured: Secured, password: str, expected: int) -> None:
    code, result = checked(
        secured.addresses["SASL_PLAINTEXT"],
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_username=SASL_USER,
        sasl_password=password,
    )
    assert code == expected
    if expected:
        assert list(failed_steps(result)) == [f"{secured.addresses['SASL_PLAINTEXT']} sasl"]


def test_clock_of_each_broker_is_compared_by_a_record(cluster: Cluster) -> None:
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        timed = NewTopic(
            "check-timed", assignment={0: [0], 1: [1]}, configs={"message.timestamp.type": "LogAppendTime"}
        )
        admin.create_topics([timed], wait_for_metadata=True)
    ended = pykafka2("check", "-b", cluster.bootstrap_servers, "--json", "--clock-topic", "check-timed")
    assert ended.returncode == 0
    clocks = {
        broker["broker"]: step["status"]
        for broker in json.loads(ended.stdout)["brokers"]
        for step in broker["steps"]
        if step["name"] == "clock"
    }
    assert clocks == {0: "ok", 1: "ok", 2: "warning"}  # it has no replica of the topic
