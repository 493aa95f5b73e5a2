"""What the pytest fixtures of clusters do; testing/pytest_plugin.py registers them.

One cluster is kept for each set of arguments and handed from test to test, emptied in between: topics
deleted, rules and links taken back, history forgotten.  A test that did more than that to it (crashed a
broker, changed its configuration, used groups or transactions) has it to itself: the next one gets another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar

import pytest

from pykafka2.errors import KafkaError
from pykafka2.testing.cluster import KafkaCluster, topic_of
from pykafka2.testing.configs import nearest
from pykafka2.testing.leaks import KINDS, LeakCheck

# Threads and sockets of clients that were closed just before may need a moment to go.
LEAK_GRACE = 1.0
LEAK_KINDS = (*KINDS, "transactions")
TIMELINE_ITEMS = 100
# What these change outlives the topics.
LASTING_APIS = frozenset(
    {"AlterConfigs", "IncrementalAlterConfigs", "UpdateFeatures", "UnregisterBroker", "AlterClientQuotas"}
)

ALLOW = "allow"

# In tests every record is looked at, as Kafka does; by default the broker trusts headers and checksums.
STRICT = {"log.validate": "strict"}

C = TypeVar("C", bound=KafkaCluster)


class TlsKafkaCluster(KafkaCluster):
    """A cluster that listens with TLS, with a certificate of an authority that nobody else trusts."""

    ca_file: str = ""

    @property
    def client_options(self) -> dict[str, str]:
        """What a pykafka2 client needs to connect: `KafkaProducer(**cluster.client_options)`."""
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "security_protocol": "SSL",
            "ssl_cafile": self.ca_file,
        }


class Shelf:
    """The clusters that are kept for the session, by their arguments."""

    def __init__(self) -> None:
        self._kept: dict[str, KafkaCluster] = {}

    def shared(self, request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
        """A cluster as good as new, which others had before."""
        arguments, allowed = _arguments(request)
        topics = arguments.pop("topics", None) or {}
        key = repr(sorted(arguments.items(), key=lambda one: one[0]))
        cluster = self._kept.pop(key, None)
        if cluster is None:
            cluster = KafkaCluster(**arguments).start()
            cluster.events.clear()  # what comes now is the test's
        leaks = LeakCheck(allowed)
        epoch = cluster.controller.epoch
        try:
            for name, given in topics.items():
                topic = topic_of(name, given)
                cluster.create_topic(
                    name, topic.partitions, topic.replication_factor, topic.configs, topic.assignment
                )
            yield cluster
            found = _open_transactions(cluster, allowed)
            is_clean = not found and _cleaned(cluster, epoch)
        except BaseException:
            cluster.close()
            raise
        if not is_clean:
            cluster.close()
        found = leaks.wait_for_none(LEAK_GRACE) + found
        if is_clean and not found:
            self._kept[key] = cluster
        else:
            cluster.close()
        _fail_for(found)

    def close(self) -> None:
        """End them all."""
        for cluster in self._kept.values():
            cluster.close()
        self._kept.clear()


def fresh(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """A cluster of the test's own."""
    arguments, allowed = _arguments(request)
    yield from _alone(KafkaCluster(**arguments), allowed)


def with_tls(request: pytest.FixtureRequest) -> Iterator[TlsKafkaCluster]:
    """A cluster of the test's own that speaks TLS."""
    try:
        import trustme
    except ImportError:
        pytest.fail("the fixture kafka_tls_cluster needs trustme: pip install trustme", pytrace=False)
    arguments, allowed = _arguments(request)
    if arguments.get("process"):
        pytest.fail("the fixture kafka_tls_cluster runs in this process", pytrace=False)
    folder: Path = request.getfixturevalue("tmp_path")
    authority, certificate = folder / "kafka-ca.pem", folder / "kafka-broker.pem"
    issuer = trustme.CA()
    issuer.cert_pem.write_to_path(str(authority))
    issued = issuer.issue_cert("localhost", "127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(str(certificate))
    cluster = TlsKafkaCluster(**{**arguments, "tls": {"cert_file": str(certificate)}})
    cluster.ca_file = str(authority)
    yield from _alone(cluster, allowed)


def add_timelines(report: pytest.TestReport, arguments: Mapping[str, object]) -> None:
    """Attach what happened in a failed test's clusters to its report."""
    for name, cluster in arguments.items():
        if isinstance(cluster, KafkaCluster):
            try:
                text = cluster.timeline(TIMELINE_ITEMS).text()
            except Exception as error:  # the report of the test's own failure must not fail
                text = f"there is no timeline: {error}"
            report.sections.append((f"timeline of {name}", text))


# ---------------------------------------------------------------------- inner parts


def _alone(cluster: C, allowed: Collection[str]) -> Iterator[C]:
    leaks = LeakCheck(allowed)
    with cluster:
        yield cluster
        found = _open_transactions(cluster, allowed)
    _fail_for(leaks.wait_for_none(LEAK_GRACE) + found)


def _fail_for(found: list[str]) -> None:
    if found:
        pytest.fail("the test left behind: " + "; ".join(found) + "; close every client", pytrace=False)


def _open_transactions(cluster: KafkaCluster, allowed: Collection[str]) -> list[str]:
    if "transactions" in allowed:
        return []
    try:
        return [
            f"open transaction {one.transactional_id!r} ({one.state})"
            for one in cluster.transactions()
            if one.is_open
        ]
    except KafkaError:
        return []  # closed by the test, or no coordinator to ask


def _cleaned(cluster: KafkaCluster, controller_epoch: int) -> bool:
    """Make it as good as new; False if that cannot be."""
    try:
        cluster.check()
        is_touched = cluster.events.events("broker") or cluster.controller.epoch != controller_epoch
        if is_touched or LASTING_APIS.intersection(cluster.metrics().names):
            return False
        if cluster.problems:
            return False  # and its end fails the test
        if any(name.startswith("__") for name in cluster.topics()):
            return False
        cluster.controls.clear()
        cluster.controls.heal()
        cluster.controls.release_metadata()
        cluster.controls.release_elections()
        cluster.controls.release_loading()
        for name in cluster.topics():
            cluster.delete_topic(name)
        cluster.history.clear()
        cluster.events.clear()
    except KafkaError:
        return False
    return True


def _arguments(request: pytest.FixtureRequest) -> tuple[dict[str, Any], Collection[str]]:
    """Of the closest marker, and the leaks that it allows; a misspelt argument fails the test by name."""
    marker = request.node.get_closest_marker("kafka")
    if marker is None:
        return {"config": STRICT}, ()
    if marker.args:
        pytest.fail("pytest.mark.kafka takes named arguments, such as brokers=1", pytrace=False)
    known = [name for name in signature(KafkaCluster.__init__).parameters if name not in ("self", "runtime")]
    for name in sorted(marker.kwargs):
        if name not in known and name != ALLOW:
            close = nearest(name, [*known, ALLOW])
            pytest.fail(f"pytest.mark.kafka has no argument {name!r}{close}", pytrace=False)
    arguments = dict(marker.kwargs)
    arguments["config"] = {**STRICT, **(arguments.get("config") or {})}
    allowed = arguments.pop(ALLOW, ())
    for kind in allowed:
        if kind not in LEAK_KINDS:
            close = nearest(kind, LEAK_KINDS)
            pytest.fail(f"pytest.mark.kafka(allow=...) has no {kind!r}{close}", pytrace=False)
    return arguments, allowed
