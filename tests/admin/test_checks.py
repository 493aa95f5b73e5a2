"""`check_cluster` on real sockets: two brokers, one of which is bad; each failure has its cause and fix."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pykafka2 import KafkaAdminClient
from pykafka2.admin import BrokerCheck, CheckStatus, CheckStep, ClusterCheck, NewTopic, check_run
from pykafka2.admin.address_probe import AddressProbe
from pykafka2.admin.clocks import controller_clock
from pykafka2.aio import KafkaAdminClient as AioAdmin
from pykafka2.clock import SystemClock
from pykafka2.driver.thread_driver import ThreadRuntime
from pykafka2.errors import ClientClosed, IllegalArgument
from pykafka2.network.endpoint import Endpoint
from pykafka2.network.tcp import TcpNetwork
from pykafka2.testing import KafkaCluster, Listener, Simulation
from tests.admin.worlds import World
from tests.ports import answering_port, closed_port, http, silence, tls_with, unresponsive_port

trustme = pytest.importorskip("trustme")

TIMEOUT = 2.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(brokers=2, topics={"orders": 2}) as running:
        yield running


def check(servers: str, *, timeout: float = TIMEOUT, **options: Any) -> ClusterCheck:
    with KafkaAdminClient(bootstrap_servers=servers, **options) as admin:
        return admin.check_cluster(timeout=timeout)


def at(result: ClusterCheck, port: int) -> BrokerCheck:
    (found,) = (broker for broker in result.brokers if broker.address.endswith(f":{port}"))
    return found


def statuses(broker: BrokerCheck) -> dict[str, str]:
    return {step.name: step.status.value for step in broker.steps}


def assert_only_bad(result: ClusterCheck, bad: BrokerCheck, step: str, cause: str, fix: str) -> None:
    """The bad broker fails in this step and skips the later ones; all others pass."""
    assert not result.has_passed
    assert [broker.address for broker in result.brokers if not broker.has_passed] == [bad.address]
    failed = [one for one in bad.steps if one.status is CheckStatus.FAILED]
    assert [one.name for one in failed] == [step]
    assert cause in failed[0].detail
    assert fix in (failed[0].fix or "")
    names = [one.name for one in bad.steps]
    later = names[names.index(step) + 1 :]
    assert all(bad.step(name).status is CheckStatus.SKIPPED for name in later if name != "tls")


def test_two_good_brokers_pass_every_step(cluster: KafkaCluster) -> None:
    result = check(cluster.bootstrap_servers)

    assert result.has_passed
    assert result.cluster_id == cluster.cluster_id
    assert [broker.broker_id for broker in result.brokers] == [0, 1]
    for broker in result.brokers:
        assert (broker.is_bootstrap, broker.is_advertised) == (True, True)
        assert statuses(broker) == {
            "dns": "ok",
            "port": "ok",
            "tls": "skipped",
            "api_versions": "ok",
            "sasl": "skipped",
            "metadata": "ok",
            "identity": "ok",
        }
    assert {step.name: step.status.value for step in result.steps} == {
        "agreement": "ok",
        "partitions": "ok",
        "versions": "ok",
        "clock": "ok",
    }


def test_brokers_that_are_only_advertised_are_checked(cluster: KafkaCluster) -> None:
    result = check(cluster.bootstrap_servers.partition(",")[0])
    assert result.has_passed
    assert [(one.broker_id, one.is_bootstrap, one.is_advertised) for one in result.brokers] == [
        (0, True, True),
        (1, False, True),
    ]


def test_result_as_dict_has_every_step(cluster: KafkaCluster) -> None:
    result = check(cluster.bootstrap_servers).as_dict()
    assert result["passed"] is True
    assert [step["name"] for step in result["brokers"][1]["steps"]][:3] == ["dns", "port", "tls"]
    assert result["steps"][0]["status"] == "ok"


def test_wrong_port_fails_with_the_port_to_correct(cluster: KafkaCluster) -> None:
    port = closed_port()
    result = check(f"{cluster.bootstrap_servers},127.0.0.1:{port}")
    assert_only_bad(result, at(result, port), "port", "nothing listens", "port in bootstrap_servers")


def test_unknown_name_fails_in_dns(cluster: KafkaCluster) -> None:
    result = check(f"{cluster.bootstrap_servers},no-such-host.invalid:9092", timeout=10.0)
    bad = at(result, 9092)
    assert_only_bad(result, bad, "dns", "cannot resolve 'no-such-host.invalid'", "name in bootstrap_servers")


def test_port_of_a_web_server_is_no_kafka_port(cluster: KafkaCluster) -> None:
    with answering_port(http) as port:
        result = check(f"{cluster.bootstrap_servers},127.0.0.1:{port}")
    assert_only_bad(result, at(result, port), "api_versions", "responds in HTTP", "")


def test_silent_port_times_out(cluster: KafkaCluster) -> None:
    with answering_port(silence) as port:
        result = check(f"{cluster.bootstrap_servers},127.0.0.1:{port}", timeout=4.0)
    bad = at(result, port)
    assert_only_bad(result, bad, "api_versions", "did not respond to ApiVersions within", "raise the timeout")


def test_timeout_is_that_of_the_step_when_the_step_begins_late(
    cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handshake and its first step begin one after the other; a busy machine can run between them."""
    pass_transport = AddressProbe._pass_transport

    def pass_late(probe: AddressProbe, now: float) -> None:
        time.sleep(0.1)
        pass_transport(probe, now)

    monkeypatch.setattr(AddressProbe, "_pass_transport", pass_late)
    with answering_port(silence) as port:
        result = check(f"127.0.0.1:{port}", timeout=0.5)
    step = at(result, port).step("api_versions")
    assert "did not respond to ApiVersions within 0.5 s" in step.detail


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse connections beyond the queue")
def test_port_behind_a_firewall_times_out(cluster: KafkaCluster) -> None:
    with unresponsive_port() as port:
        result = check(f"{cluster.bootstrap_servers},127.0.0.1:{port}", timeout=4.0)
    assert_only_bad(result, at(result, port), "port", "did not accept the connection within 4 s", "firewall")


def test_address_with_steps_that_do_not_end_fails(
    cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykafka2.admin.check_run.STEPS_AT_MOST", 0)
    with unresponsive_port() as port:
        result = check(f"127.0.0.1:{port},{cluster.bootstrap_servers}", timeout=30)
    assert_only_bad(result, at(result, port), "port", "did not end within 1 s", "open the firewall")


def test_paused_broker_times_out() -> None:
    with KafkaCluster(brokers=2) as own:
        own.controls.pause_broker(1)
        result = check(own.bootstrap_servers, timeout=4.0)
        own.controls.resume_broker(1)
    bad = result.brokers[1]
    assert_only_bad(result, bad, "api_versions", "did not", "raise the timeout")


def test_unreachable_advertised_listener_fails_with_the_option_to_correct() -> None:
    first, second, wrong = closed_port(), closed_port(), closed_port()
    with KafkaCluster(brokers=2, ports=[first, second], advertised_ports=[first, wrong]):
        result = check(f"127.0.0.1:{first}")
    bad = at(result, wrong)
    assert (bad.broker_id, bad.is_bootstrap) == (1, False)
    assert_only_bad(result, bad, "port", "nothing listens", "advertised.listeners of broker 1")


def test_unknown_name_of_an_advertised_listener_fails_in_dns() -> None:
    port, other = closed_port(), closed_port()
    with KafkaCluster(brokers=2, ports=[port, other], advertised_host="broker-{id}.invalid"):
        result = check(f"127.0.0.1:{port}", timeout=10.0)
    assert [(one.broker_id, one.has_passed) for one in result.brokers] == [
        (None, True),
        (0, False),
        (1, False),
    ]
    failed = result.brokers[2].step("dns")
    assert "broker-1.invalid" in failed.detail
    assert "advertised.listeners of broker 1" in (failed.fix or "")


def test_advertised_listeners_of_two_brokers_that_are_swapped_are_detected() -> None:
    first, second = closed_port(), closed_port()
    with KafkaCluster(brokers=2, ports=[first, second], advertised_ports=[second, first]):
        result = check(f"127.0.0.1:{first}")
    for broker in result.brokers:
        assert broker.step("identity").status is CheckStatus.FAILED
        assert "another broker responds" in broker.step("identity").detail


def test_brokers_of_two_clusters_disagree(cluster: KafkaCluster) -> None:
    with KafkaCluster(brokers=1, seed=7, first_broker_id=5) as other:
        result = check(f"{cluster.bootstrap_servers},{other.bootstrap_servers}")
    agreement = result.step("agreement")
    assert agreement.status is CheckStatus.FAILED
    assert f"belongs to cluster {other.cluster_id}, others to {cluster.cluster_id}" in agreement.detail
    assert not result.has_passed


def test_partition_without_a_leader_fails() -> None:
    with KafkaCluster(brokers=2, topics={"orders": 2}, config={"default.replication.factor": 1}) as own:
        own.controls.crash_broker(1)
        result = check(own.bootstrap_servers)
    assert result.step("partitions").status is CheckStatus.FAILED
    assert "have no leader: orders-" in result.step("partitions").detail


def test_replica_that_is_not_in_sync_is_a_warning_and_no_failure() -> None:
    with KafkaCluster(brokers=2, topics={"orders": 2}) as own:
        own.controls.stop_broker(1)
        result = check(own.bootstrap_servers.partition(",")[0])
    assert result.has_passed
    step = result.step("partitions")
    assert step.status is CheckStatus.WARNING
    assert "replicas that are not in sync: orders-" in step.detail
    assert step.fix


def test_address_of_a_name_that_does_not_respond_is_shown_beside_the_one_that_does(
    cluster: KafkaCluster,
) -> None:
    class TwoAddresses(TcpNetwork):
        def resolve(self, host: str, port: int, *, canonical: bool = False) -> list[Endpoint]:
            return [Endpoint("127.0.0.2", port), Endpoint("127.0.0.1", port)]

    runtime = ThreadRuntime(network=TwoAddresses())
    try:
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers, runtime=runtime) as admin:
            result = admin.check_cluster(timeout=TIMEOUT)
    finally:
        runtime.close()
    assert result.has_passed
    port = result.brokers[0].step("port").detail
    assert port.startswith("connected to 127.0.0.1:")
    assert "127.0.0.2" in port
    assert result.brokers[0].step("dns").detail == "127.0.0.2, 127.0.0.1"


def test_more_addresses_than_are_checked_at_once_are_all_checked(
    cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_run, "PROBES_AT_ONCE", 2)
    wrong = [closed_port() for _ in range(3)]
    result = check(",".join([cluster.bootstrap_servers, *(f"127.0.0.1:{port}" for port in wrong)]))
    assert len(result.brokers) == 5
    assert [at(result, port).step("port").status for port in wrong] == [CheckStatus.FAILED] * 3


def test_brokers_of_different_versions_are_a_warning_with_their_names() -> None:
    def probe(name: str, **ranges: tuple[int, int]) -> Any:
        return SimpleNamespace(name=name, versions=SimpleNamespace(ranges=ranges))

    check_of = check_run.CheckRun(cast(Any, None), TIMEOUT)
    same = [probe("broker 0", Fetch=(0, 17)), probe("broker 1", Fetch=(0, 17))]
    assert check_of._versions(same).status is CheckStatus.OK
    step = check_of._versions([*same, probe("broker 2", Fetch=(0, 18))])
    assert step.status is CheckStatus.WARNING
    assert step.detail == "brokers of different versions: broker 0, broker 1 | broker 2"


def test_warning_is_no_failure_and_a_failed_cluster_step_is_one() -> None:
    def step(status: CheckStatus) -> CheckStep:
        return CheckStep("tls", status, "detail")

    good = BrokerCheck("a:1", 0, True, True, tuple(map(step, ("ok", "warning", "skipped"))))  # type: ignore[arg-type]
    bad = BrokerCheck("a:2", 1, True, True, (step(CheckStatus.OK), step(CheckStatus.FAILED)))
    warned, failed = step(CheckStatus.WARNING), step(CheckStatus.FAILED)
    assert (good.has_passed, bad.has_passed) == (True, False)
    assert ClusterCheck("id", (good,), (warned,)).has_passed
    assert not ClusterCheck("id", (good, bad), (warned,)).has_passed
    assert not ClusterCheck("id", (good,), (warned, failed)).has_passed


def test_dict_has_every_key_of_addresses_and_steps(cluster: KafkaCluster) -> None:
    result = check(cluster.bootstrap_servers).as_dict()
    assert list(result) == ["passed", "cluster_id", "brokers", "steps"]
    broker = result["brokers"][1]
    assert list(broker) == ["address", "broker", "bootstrap", "advertised", "passed", "steps"]
    assert (broker["bootstrap"], broker["advertised"], broker["passed"]) == (True, True, True)
    for step in (*broker["steps"], *result["steps"]):
        assert list(step) == ["name", "status", "detail", "fix", "seconds"]
    assert broker["steps"][0]["seconds"] >= 0


class ShownClock(SystemClock):
    """A clock that shows these times, in milliseconds, one after the other."""

    def __init__(self, *times_ms: int) -> None:
        self._times = list(times_ms)

    def wall_ms(self) -> int:
        return self._times.pop(0)


def quorum(*times_ms: int, error: int = 0) -> Any:
    """A function that responds to DescribeQuorum: broker 3 leads, and the others have these times, too."""
    voters = [
        SimpleNamespace(replica_id=number, last_fetch_timestamp=time_ms)
        for number, time_ms in enumerate(times_ms, 3)
    ]
    partition = SimpleNamespace(error_code=error, error_message=None, current_voters=voters, leader_id=3)
    topic = SimpleNamespace(partitions=[partition])
    return lambda request: SimpleNamespace(error_code=0, error_message=None, topics=[topic])


@pytest.mark.parametrize(
    ("broker_ms", "ended_ms", "status", "words"),
    [
        (107_000, 100_000, "failed", "the controller (broker 3) is 7.00 s ahead of this host's"),
        (93_000, 100_000, "failed", "is 7.00 s behind this host's"),
        (105_000, 100_000, "ok", "is 5.00 s ahead of"),
        (108_000, 104_000, "ok", "is 6.00 s ahead of this host's, give or take 2.00 s"),
        (109_001, 104_000, "failed", "is 7.00 s ahead of this host's, give or take 2.00 s"),
    ],
)
def test_skew_of_the_controller_counts_beyond_the_time_of_the_request(
    broker_ms: int, ended_ms: int, status: str, words: str
) -> None:
    step = controller_clock(quorum(broker_ms, 1), ShownClock(100_000, ended_ms), 5.0)
    assert (step.status.value, words in step.detail) == (status, True), step.detail


def test_clock_that_is_not_shown_is_skipped() -> None:
    unauthorized = controller_clock(quorum(1, error=31), ShownClock(1, 1), 5.0)
    assert unauthorized.status is CheckStatus.SKIPPED
    assert "not known: " in unauthorized.detail
    assert controller_clock(quorum(-1), ShownClock(1, 1), 5.0).status is CheckStatus.SKIPPED


def skew_of(broker: BrokerCheck) -> tuple[float, float]:
    """The skew of a broker's clock and its uncertainty, which grows with the load of this machine."""
    pattern = rf"the clock of broker {broker.broker_id} is ([\d.]+) s .*, give or take ([\d.]+) s"
    found = re.match(pattern, broker.step("clock").detail)
    assert found is not None, broker.step("clock").detail
    return float(found[1]), float(found[2])


def test_clock_that_differs_fails(cluster: KafkaCluster) -> None:
    class Ahead(SystemClock):
        def wall_ms(self) -> int:
            return super().wall_ms() + 60_000

    runtime = ThreadRuntime(clock=Ahead())
    try:
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers, runtime=runtime) as admin:
            timed = NewTopic("skewed", 2, configs={"message.timestamp.type": "LogAppendTime"})
            admin.create_topics([timed], wait_for_metadata=True)
            result = admin.check_cluster(timeout=TIMEOUT, clock_topic="skewed")
            failed = result.step("clock")
            passed = admin.check_cluster(timeout=TIMEOUT, max_clock_skew=90).step("clock")
    finally:
        runtime.close()
    assert failed.status is CheckStatus.FAILED
    assert "behind this host's" in failed.detail
    assert "NTP" in (failed.fix or "")
    assert passed.status is CheckStatus.OK
    assert [broker.step("clock").status.value for broker in result.brokers] == ["failed", "failed"]
    skew, doubt = skew_of(result.brokers[1])
    assert abs(skew - 60) <= doubt + 0.02


def test_clock_of_each_broker_is_compared_by_a_record(cluster: KafkaCluster) -> None:
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        timed = NewTopic(
            "timed", assignment={0: [0], 1: [1]}, configs={"message.timestamp.type": "LogAppendTime"}
        )
        admin.create_topics([timed], wait_for_metadata=True)
        result = admin.check_cluster(timeout=TIMEOUT, clock_topic="timed")
        without_time = admin.check_cluster(timeout=TIMEOUT, clock_topic="orders")
        missing = admin.check_cluster(timeout=TIMEOUT, clock_topic="missing")
    assert [broker.step("clock").status.value for broker in result.brokers] == ["ok", "ok"]
    skew, doubt = skew_of(result.brokers[1])
    assert skew <= doubt + 0.02
    assert "needs message.timestamp.type" in without_time.brokers[0].step("clock").detail
    assert missing.brokers[0].step("clock").detail == "not known: topic missing does not exist"
    for unknown in (missing, without_time):  # the caller requested the clock check
        assert unknown.brokers[0].step("clock").status == "warning"
        assert "message.timestamp.type=LogAppendTime" in unknown.brokers[0].step("clock").fix
    assert missing.has_passed


# ---------------------------------------------------------------------- TLS


class Certificates:
    """An authority, and certificate files for 127.0.0.1."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._authority = trustme.CA()
        self.ca_file = folder / f"{name}-ca.pem"
        self._authority.cert_pem.write_to_path(str(self.ca_file))

    def file(self, name: str, *hosts: str, **options: Any) -> Path:
        path = self._folder / f"{self._name}-{name}.pem"
        issued = self._authority.issue_cert(*(hosts or ("127.0.0.1", "localhost")), **options)
        issued.private_key_and_cert_chain_pem.write_to_path(str(path))
        return path


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"), "own")


@pytest.fixture(scope="module")
def tls_cluster(certificates: Certificates) -> Iterator[KafkaCluster]:
    file = str(certificates.file("good"))
    with KafkaCluster(brokers=1, tls={"cert_file": file, "key_file": file}) as running:
        yield running


def check_tls(cluster: KafkaCluster, certificates: Certificates, port: int) -> ClusterCheck:
    return check(
        f"{cluster.bootstrap_servers},127.0.0.1:{port}",
        security_protocol="SSL",
        ssl_cafile=str(certificates.ca_file),
    )


def test_certificate_is_shown_with_dates_and_names(
    tls_cluster: KafkaCluster, certificates: Certificates
) -> None:
    result = check(
        tls_cluster.bootstrap_servers, security_protocol="SSL", ssl_cafile=str(certificates.ca_file)
    )
    assert result.has_passed
    tls = result.brokers[0].step("tls")
    assert tls.status is CheckStatus.OK
    assert (
        "certificate for 127.0.0.1, localhost, from 2000-01-01 to 3000-01-01, issued by O=trustme"
        in tls.detail
    )


def test_certificate_that_expires_soon_is_a_warning(
    tls_cluster: KafkaCluster, certificates: Certificates
) -> None:
    soon = datetime.now(UTC) + timedelta(days=5)
    file = str(certificates.file("soon", not_after=soon))
    with KafkaCluster(brokers=1, tls={"cert_file": file, "key_file": file}) as other:
        port = int(other.bootstrap_servers.rpartition(":")[2])
        result = check_tls(tls_cluster, certificates, port)
    tls = at(result, port).step("tls")
    assert tls.status is CheckStatus.WARNING
    assert f"to {soon:%Y-%m-%d}" in tls.detail
    assert "renew" in (tls.fix or "")


def test_expired_certificate_fails_with_its_date(
    tls_cluster: KafkaCluster, certificates: Certificates
) -> None:
    expired = certificates.file("expired", not_after=datetime(2020, 5, 17, tzinfo=UTC))
    with answering_port(tls_with(expired)) as port:
        result = check_tls(tls_cluster, certificates, port)
    assert_only_bad(result, at(result, port), "tls", "has expired: certificate for 127.0.0.1", "renew")
    assert "to 2020-05-17" in at(result, port).step("tls").detail


def test_certificate_that_is_not_yet_valid_fails_with_its_date(
    tls_cluster: KafkaCluster, certificates: Certificates
) -> None:
    class Early(SystemClock):
        def wall_ms(self) -> int:
            return 900_000_000_000  # 1998; certificates start in 2000

    runtime = ThreadRuntime(clock=Early())
    servers, untrusted = tls_cluster.bootstrap_servers, certificates.file("untrusted")
    try:
        with KafkaAdminClient(
            bootstrap_servers=servers,
            runtime=runtime,
            security_protocol="SSL",
            ssl_cafile=str(Certificates(untrusted.parent, "unknown").ca_file),
        ) as admin:
            failed = admin.check_cluster(timeout=TIMEOUT).brokers[0].step("tls")
    finally:
        runtime.close()
    assert "is not valid before 2000-01-01 00:00 UTC: certificate for 127.0.0.1" in failed.detail
    assert failed.fix == "correct the clock of this host, or wait"


def test_certificate_for_another_name_fails_with_its_names(
    tls_cluster: KafkaCluster, certificates: Certificates
) -> None:
    with answering_port(tls_with(certificates.file("other", "kafka.example.com"))) as port:
        result = check_tls(tls_cluster, certificates, port)
    cause = "is not for 127.0.0.1: certificate for kafka.example.com"
    assert_only_bad(result, at(result, port), "tls", cause, "issue one with this name")


def test_certificate_of_another_authority_fails_with_the_authority(
    tls_cluster: KafkaCluster, certificates: Certificates, tmp_path: Path
) -> None:
    others = Certificates(tmp_path, "others")
    with answering_port(tls_with(others.file("good"))) as port:
        result = check_tls(tls_cluster, certificates, port)
    assert_only_bad(result, at(result, port), "tls", "authority is not trusted", "set ssl_cafile")


def test_silent_tls_port_times_out(tls_cluster: KafkaCluster, certificates: Certificates) -> None:
    with answering_port(silence) as port:
        result = check(
            f"{tls_cluster.bootstrap_servers},127.0.0.1:{port}",
            timeout=2.0,
            security_protocol="SSL",
            ssl_cafile=str(certificates.ca_file),
        )
    cause = "did not finish the TLS handshake within 2 s"
    assert_only_bad(result, at(result, port), "tls", cause, "raise the timeout")
    assert at(result, port).step("port").status is CheckStatus.OK


def test_plaintext_port_fails_with_the_protocol_to_set(
    tls_cluster: KafkaCluster, certificates: Certificates
) -> None:
    with KafkaCluster(brokers=1, first_broker_id=3) as plain:
        port = int(plain.bootstrap_servers.rpartition(":")[2])
        result = check_tls(tls_cluster, certificates, port)
    assert_only_bad(result, at(result, port), "tls", "without TLS", "security_protocol")


def test_tls_port_for_a_plaintext_client_fails_with_the_protocol_to_set(
    cluster: KafkaCluster, tls_cluster: KafkaCluster
) -> None:
    result = check(f"{cluster.bootstrap_servers},{tls_cluster.bootstrap_servers}")
    bad = at(result, int(tls_cluster.bootstrap_servers.rpartition(":")[2]))
    failed = next(step for step in bad.steps if step.status is CheckStatus.FAILED)
    assert "speaks TLS on this port" in failed.detail
    assert "security_protocol" in (failed.fix or "")
    assert sum(not broker.has_passed for broker in result.brokers) == 1


def test_tls_port_that_closes_plaintext_connections_silently_is_detected(
    cluster: KafkaCluster, certificates: Certificates
) -> None:
    with answering_port(tls_with(certificates.file("silent"))) as port:
        result = check(f"{cluster.bootstrap_servers},127.0.0.1:{port}")
    failed = next(step for step in at(result, port).steps if step.status is CheckStatus.FAILED)
    assert "speaks TLS on this port" in failed.detail


# ---------------------------------------------------------------------- SASL

SASL = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": "alice"}


def sasl_cluster(password: str, **options: Any) -> KafkaCluster:
    return KafkaCluster(
        brokers=1,
        listeners={"SASL_PLAINTEXT": Listener(mechanisms=["PLAIN"])},
        users={"alice": password},
        **options,
    )


def test_wrong_password_fails_in_sasl() -> None:
    with sasl_cluster("secret") as good, sasl_cluster("another", first_broker_id=3) as other:
        result = check(f"{good.bootstrap_servers},{other.bootstrap_servers}", sasl_password="secret", **SASL)
        port = int(other.bootstrap_servers.rpartition(":")[2])
    assert_only_bad(result, at(result, port), "sasl", "rejected the credentials", "password")
    assert "secret" not in str(result.as_dict())
    (passed,) = (broker for broker in result.brokers if broker.has_passed)
    assert "PLAIN as 'alice'" in passed.step("sasl").detail


def test_sasl_port_fails_without_sasl(cluster: KafkaCluster) -> None:
    with sasl_cluster("secret", first_broker_id=3) as other:
        port = int(other.bootstrap_servers.rpartition(":")[2])
        result = check(f"{cluster.bootstrap_servers},{other.bootstrap_servers}")
    bad = at(result, port)
    assert bad.step("sasl").status is CheckStatus.FAILED
    assert "requires SASL authentication (PLAIN)" in bad.step("sasl").detail


def test_sasl_client_fails_at_a_port_without_sasl(cluster: KafkaCluster) -> None:
    with sasl_cluster("secret", first_broker_id=3) as good:
        result = check(
            f"{good.bootstrap_servers},{cluster.bootstrap_servers.partition(',')[0]}",
            sasl_password="secret",
            **SASL,
        )
    (bad,) = (broker for broker in result.brokers if not broker.has_passed)
    assert_only_bad(result, bad, "sasl", "does not use SASL", "security_protocol")


# ---------------------------------------------------------------------- the call


@pytest.mark.parametrize(
    "wrong", [{"timeout": 0}, {"timeout": "1"}, {"max_clock_skew": -1}, {"clock_topic": 5}]
)
def test_invalid_argument_is_named(cluster: KafkaCluster, wrong: dict[str, Any]) -> None:
    with (
        KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
        pytest.raises(IllegalArgument, match=next(iter(wrong))),
    ):
        admin.check_cluster(**wrong)


def test_broker_that_does_not_describe_its_settings_has_an_unknown_identity(cluster: KafkaCluster) -> None:
    cluster.controls.rule(api="DescribeConfigs", nth=1, then="error:CLUSTER_AUTHORIZATION_FAILED")
    result = check(cluster.bootstrap_servers)
    identities = [broker.step("identity") for broker in result.brokers]
    assert sorted(step.status.value for step in identities) == ["ok", "skipped"]
    assert result.has_passed


def test_connections_are_closed_after_the_check(cluster: KafkaCluster) -> None:
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers, client_id="counted") as admin:
        admin.check_cluster(timeout=TIMEOUT)
        admin.list_topics()  # the close of the check's connections precedes it
        assert len([one for one in cluster.connections() if one.client_id == "counted"]) <= 1


def test_check_from_asyncio(cluster: KafkaCluster) -> None:
    async def run() -> ClusterCheck:
        async with AioAdmin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            return await admin.check_cluster(timeout=TIMEOUT)

    assert asyncio.run(run()).has_passed


# ---------------------------------------------------------------------- in virtual time


def test_check_in_virtual_time_takes_one_timeout_for_several_slow_brokers(simulation: Simulation) -> None:
    world = World(simulation, brokers=4)
    world.cluster.controls.pause_broker(1)
    world.cluster.controls.pause_broker(3)
    began = simulation.now
    result = world.admin.check_cluster(timeout=5)
    assert [broker.broker_id for broker in result.brokers if not broker.has_passed] == [1, 3]
    assert 5 <= simulation.now - began < 8
    world.cluster.controls.resume_broker(1)
    world.cluster.controls.resume_broker(3)
    world.close()


def test_brokers_with_stale_metadata_agree_a_moment_later(simulation: Simulation) -> None:
    world = World(simulation)
    world.cluster.controls.delay_metadata(1, 0.5)
    world.cluster.controls.crash_broker(0)
    world.cluster.controls.restart_broker(0)
    result = world.admin.check_cluster(timeout=5)
    assert result.step("agreement").status is CheckStatus.OK
    world.close()


def test_client_that_is_closed_during_a_check_raises_client_closed(simulation: Simulation) -> None:
    world = World(simulation)
    world.cluster.controls.pause_broker(1)
    checking = simulation.spawn(lambda: world.admin.check_cluster(timeout=60))
    simulation.run_for(1)
    world.admin.close()
    with pytest.raises(ClientClosed):
        checking.result()
    world.cluster.controls.resume_broker(1)
    world.close()


def test_texts_about_one_broker_with_one_partition_are_singular() -> None:
    with (
        KafkaCluster(brokers=1, topics={"orders": 1}) as one,
        KafkaAdminClient(bootstrap_servers=one.bootstrap_servers) as admin,
    ):
        steps = {step.name: step.detail for step in admin.check_cluster().steps}
    assert steps["agreement"] == "1 address describes the same cluster of 1 broker"
    assert steps["partitions"] == "1 partition has a leader and all replicas"
