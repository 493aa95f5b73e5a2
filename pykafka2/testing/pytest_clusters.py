"""What the pytest fixtures of clusters do; testing/pytest_plugin.py registers them.

One cluster is kept for each set of arguments and handed from test to test, emptied in between: topics
deleted, rules and links taken back, history, events and metrics forgotten.  A test that did more than that to
it (crashed a broker, changed its configuration, used groups or transactions) or that failed has it to itself:
the next one gets another.  A failed test is not asked what it left behind: what failed it is shown instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar

import pytest

from pykafka2.errors import KafkaError
from pykafka2.testing.cluster import KafkaCluster, topic_of
from pykafka2.testing.configs import nearest
from pykafka2.testing.leaks import KINDS, LeakCheck
from pykafka2.testing.pytest_plugin import FAILED
from pykafka2.testing.quick import QUICK
from pykafka2.testing.views import ConnectionView

# Threads and sockets of clients that were closed just before may need a moment to go.
LEAK_GRACE = 1.0
LEAK_KINDS = (*KINDS, "transactions")
TIMELINE_ITEMS = 100
# What these change outlives the topics.
LASTING_APIS = frozenset(
    {"AlterConfigs", "IncrementalAlterConfigs", "UpdateFeatures", "UnregisterBroker", "AlterClientQuotas"}
)

ALLOW = "allow"
MARK = "kafka"

# Tests do not like to wait, and have every record looked at, as Kafka does; by default the broker trusts
# headers and checksums.
CONFIG = {**QUICK, "log.validate": "strict"}

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
            before = LeakCheck()
            cluster = KafkaCluster(**arguments).start()
            before.pardon()  # other fixtures of the test are not to blame for a cluster that is kept
        leaks = LeakCheck(allowed, _connections(cluster))
        epoch = cluster.controller.epoch
        try:
            for name, given in topics.items():
                topic = topic_of(name, given)
                cluster.create_topic(
                    name, topic.partitions, topic.replication_factor, topic.configs, topic.assignment
                )
            yield cluster
            found = _left_in(request, cluster, leaks, allowed)
            is_clean = not found and not _has_failed(request) and _cleaned(cluster, epoch)
        except BaseException:
            cluster.close()
            raise
        if not is_clean:
            cluster.close()
        found += _left_after(request, leaks, found)
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
    yield from _alone(request, KafkaCluster(**arguments), allowed)


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
    yield from _alone(request, cluster, allowed)


def add_timelines(
    report: pytest.TestReport, call: pytest.CallInfo[None], arguments: Mapping[str, object]
) -> None:
    """Attach what happened in a failed test's clusters to its report."""
    error = None if call.excinfo is None else call.excinfo.value
    for name, cluster in clusters_of(error, arguments).items():
        report.sections.append((f"timeline of {name}", cluster.timeline(TIMELINE_ITEMS).text()))


def clusters_of(error: BaseException | None, arguments: Mapping[str, object]) -> dict[str, KafkaCluster]:
    """The clusters that a test was using when it ended so: those of fixtures, and those in variables (and in
    attributes of `self`) of the functions that the error passed through; by name, and only those that can
    still tell.
    """
    found: dict[str, KafkaCluster] = {}
    seen: list[KafkaCluster] = []
    traceback = None if error is None else error.__traceback__
    variables = [arguments]
    while traceback is not None:
        variables.append(traceback.tb_frame.f_locals)
        variables.append(getattr(traceback.tb_frame.f_locals.get("self"), "__dict__", {}))
        traceback = traceback.tb_next
    for place in variables:
        for name, value in list(place.items()):
            if isinstance(value, KafkaCluster) and name != "self" and all(value is not one for one in seen):
                seen.append(value)
                try:
                    value.timeline(0)
                except Exception:  # noqa: S112  it has nothing to tell; the test's failure is what counts
                    continue
                found[name] = value
    return found


# ---------------------------------------------------------------------- inner parts


def _has_failed(request: pytest.FixtureRequest) -> bool:
    return bool(request.node.stash.get(FAILED, False))


def _alone(request: pytest.FixtureRequest, cluster: C, allowed: Collection[str]) -> Iterator[C]:
    leaks = LeakCheck(allowed, _connections(cluster))
    with cluster:
        yield cluster
        found = _left_in(request, cluster, leaks, allowed)
    _fail_for(found + _left_after(request, leaks, found))


def _connections(cluster: KafkaCluster) -> Callable[[], list[ConnectionView]]:
    def ask() -> list[ConnectionView]:
        try:
            return cluster.connections()
        except KafkaError:
            return []  # closed by the test

    return ask


def _left_in(
    request: pytest.FixtureRequest, cluster: KafkaCluster, leaks: LeakCheck, allowed: Collection[str]
) -> list[str]:
    """Clients and transactions that a test left in a cluster that runs; a failed one is not asked."""
    if _has_failed(request):
        return []
    try:
        # The end of a connection goes unnoticed while a request of it is held or lost on its way.
        cluster.controls.clear()
        cluster.controls.heal()
    except KafkaError:
        pass  # closed by the test
    return leaks.wait_for_clients(LEAK_GRACE) + _open_transactions(cluster, allowed)


def _left_after(request: pytest.FixtureRequest, leaks: LeakCheck, known: Collection[str]) -> list[str]:
    """The rest that it left in this process."""
    if _has_failed(request):
        return []
    return [line for line in leaks.wait_for_none(0.0 if known else LEAK_GRACE) if line not in known]


def _fail_for(found: list[str]) -> None:
    if found:
        pytest.fail(
            "the test left behind: " + "; ".join(found) + "; close clients, end transactions", pytrace=False
        )


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
        if any(name.startswith("__") for name in cluster.topics()) or cluster.has_admin_port:
            return False
        cluster.controls.clear()
        cluster.controls.heal()
        cluster.controls.release_metadata()
        cluster.controls.release_elections()
        cluster.controls.release_loading()
        for name in cluster.topics():
            cluster.delete_topic(name)
        cluster.forget()
    except KafkaError:
        return False
    return True


def _arguments(request: pytest.FixtureRequest) -> tuple[dict[str, Any], Collection[str]]:
    """Of the closest marker, and the leaks that it allows; a misspelt argument fails the test by name."""
    for other in request.node.iter_markers():
        if get_close_matches(other.name, [MARK], cutoff=0.75) and other.name != MARK:
            pytest.fail(f"there is no pytest.mark.{other.name}; did you mean {MARK!r}?", pytrace=False)
    marker = request.node.get_closest_marker(MARK)
    if marker is None:
        return {"config": CONFIG}, ()
    if marker.args:
        pytest.fail("pytest.mark.kafka takes named arguments, such as brokers=1", pytrace=False)
    known = [name for name in signature(KafkaCluster.__init__).parameters if name not in ("self", "runtime")]
    for name in sorted(marker.kwargs):
        if name not in known and name != ALLOW:
            close = nearest(name, [*known, ALLOW])
            pytest.fail(f"pytest.mark.kafka has no argument {name!r}{close}", pytrace=False)
    arguments = dict(marker.kwargs)
    arguments["config"] = {**CONFIG, **(arguments.get("config") or {})}
    allowed = arguments.pop(ALLOW, ())
    for kind in allowed:
        if kind not in LEAK_KINDS:
            close = nearest(kind, LEAK_KINDS)
            pytest.fail(f"pytest.mark.kafka(allow=...) has no {kind!r}{close}", pytrace=False)
    return arguments, allowed
