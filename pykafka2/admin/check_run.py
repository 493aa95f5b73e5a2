"""One run of `check_cluster`: probes all addresses, then compares the responses of the brokers.

address_probe.py checks one address. This module starts a probe for each bootstrap address, then for each
address that the brokers advertise. Runs on the caller's thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pykafka2.admin.address_probe import AddressProbe
from pykafka2.admin.check_values import BrokerCheck, CheckStatus, CheckStep, ClusterCheck
from pykafka2.admin.clocks import broker_clock, controller_clock
from pykafka2.errors import InvalidRequest, KafkaError, error_of
from pykafka2.text import counted

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient
    from pykafka2.protocol.struct import Request

GRACE = 1.0
"""Seconds beyond the limits of all steps for which a probe is awaited."""
STEPS_AT_MOST = 8
"""Waits of one probe, each limited by the timeout: DNS, two addresses, two handshakes, requests. The probe of
a name with many unreachable addresses fails after them.
"""
SETTLING = 1.0
"""Seconds after which brokers that disagree are compared again: metadata spreads by and by."""
PROBES_AT_ONCE = 100
MAX_ADDRESSES = 2000
"""Each broker could advertise addresses that no other one does, without an end."""
BROKER_RESOURCE = 4


class CheckRun:
    """The probes of one call and what they have found."""

    def __init__(self, cluster: ClusterClient, timeout: float) -> None:
        self._cluster = cluster
        self._timeout = timeout
        self._probes: list[AddressProbe] = []

    def run(self, max_clock_skew: float, clock_topic: str | None) -> ClusterCheck:
        """Check all addresses, then compare them."""
        addresses = list(dict.fromkeys(self._cluster.options.bootstrap_servers))
        self._start(
            [AddressProbe(self._cluster, host, port, None, self._timeout) for host, port in addresses]
        )
        for probe in self._probes:
            probe.is_bootstrap = True
        self._check_advertised()
        ready = [probe for probe in self._probes if probe.is_ready]
        steps = []
        if ready:
            clock = self._cluster.driver.clock
            for probe in ready:
                self._identify(probe)
                if clock_topic is not None and probe.broker_id is not None:
                    probe.steps["clock"] = broker_clock(
                        partial(self._ask, probe),
                        clock,
                        max_clock_skew,
                        clock_topic,
                        probe.metadata,
                        probe.broker_id,
                        self._timeout,
                    )
            steps = [
                self._agreement(ready),
                self._partitions(ready),
                self._versions(ready),
                controller_clock(partial(self._ask, ready[0]), clock, max_clock_skew),
            ]
        cluster_id = next((probe.metadata.cluster_id for probe in ready), None)
        return ClusterCheck(cluster_id, tuple(map(_result, self._sorted())), tuple(steps))

    def close(self) -> None:
        """Close all connections."""
        probes = list(self._probes)

        def close_all(now: float) -> None:
            for probe in probes:
                probe.close(now)

        if not self._cluster.is_closed and self._cluster.driver.failure is None:
            self._cluster.driver.call_soon(close_all)

    def _sorted(self) -> list[AddressProbe]:
        return sorted(self._probes, key=lambda probe: (not probe.is_bootstrap, probe.broker_id or 0))

    def _start(self, probes: Sequence[AddressProbe]) -> None:
        """Run probes at the same time, up to a limit, and wait for all."""
        self._probes += probes
        for first in range(0, len(probes), PROBES_AT_ONCE):
            together = probes[first : first + PROBES_AT_ONCE]
            for probe in together:
                self._cluster.driver.call_soon(probe.start)
            for probe in together:
                limit = STEPS_AT_MOST * self._timeout + GRACE
                if not self._cluster.driver.wait_until(partial(_is_done, probe), limit, probe.done.waiters):
                    self._cluster.driver.call_soon(partial(probe.give_up, limit))
                    probe.done.result(GRACE)

    def _check_advertised(self) -> None:
        """Check the addresses that brokers advertise; those of bootstrap_servers are only labelled."""
        while True:
            known = {(probe.host, probe.port): probe for probe in self._probes}
            new: dict[tuple[str, int], AddressProbe] = {}
            for probe in self._probes:
                for broker in () if probe.metadata is None else probe.metadata.brokers:
                    address = (broker.host, broker.port)
                    if address in known:
                        known[address].broker_id = broker.node_id
                    elif address not in new:
                        new[address] = AddressProbe(self._cluster, *address, broker.node_id, self._timeout)
            left = MAX_ADDRESSES - len(self._probes)
            if not new or left <= 0:
                return
            self._start(list(new.values())[:left])

    def _ask(self, probe: AddressProbe, request: Request[Any]) -> Any:
        """Send a request over a probe's connection. Raise its error."""
        from pykafka2.driver.completion import Completion

        completion: Completion[Any] = Completion(self._cluster.driver, type(request).__name__)
        self._cluster.driver.call_soon(
            lambda now: probe.request(
                request,
                lambda response, then: completion.succeed(response),
                lambda error, then: completion.fail(error),
            )
        )
        return completion.result(self._timeout + GRACE)

    # ------------------------------------------------------------------ steps of a broker

    def _identify(self, probe: AddressProbe) -> None:
        """Check that the broker at an advertised address is the one that advertises it."""
        from pykafka2.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource

        if probe.broker_id is None:
            return
        resource = DescribeConfigsResource(
            resource_type=BROKER_RESOURCE, resource_name=str(probe.broker_id), configuration_keys=["node.id"]
        )
        error: KafkaError | None
        try:
            results = self._ask(probe, DescribeConfigsRequest(resources=[resource])).results
            error = next(
                (error_of(one.error_code, one.error_message) for one in results if one.error_code), None
            )
        except KafkaError as failure:
            error = failure
        if error is None:
            step = CheckStep("identity", CheckStatus.OK, f"broker {probe.broker_id} responds")
        elif isinstance(error, InvalidRequest):
            step = CheckStep(
                "identity",
                CheckStatus.FAILED,
                f"another broker responds at the address of broker {probe.broker_id}: {error}",
                "correct advertised.listeners, or the forwarding of ports in between",
            )
        else:
            step = CheckStep("identity", CheckStatus.SKIPPED, f"not known: {error}")
        probe.steps["identity"] = step

    # ------------------------------------------------------------------ steps of the cluster

    def _agreement(self, ready: list[AddressProbe]) -> CheckStep:
        difference = _difference(ready)
        if difference is not None:
            self._cluster.pause(SETTLING)
            self._refresh(ready)
            difference = _difference(ready)
        if difference is not None:
            return CheckStep(
                "agreement",
                CheckStatus.FAILED,
                difference,
                "check that all addresses belong to one cluster, and that its brokers reach the controller",
            )
        brokers = len(ready[0].metadata.brokers)
        return CheckStep(
            "agreement",
            CheckStatus.OK,
            f"{counted(ready, 'address describes', 'addresses describe')} the same cluster of "
            f"{counted(brokers, 'broker')}",
        )

    def _refresh(self, ready: list[AddressProbe]) -> None:
        from pykafka2.protocol.messages.metadata import MetadataRequest

        for probe in ready:
            try:
                probe.metadata = self._ask(
                    probe, MetadataRequest(topics=None, allow_auto_topic_creation=False)
                )
            except KafkaError:
                continue  # the first response stays

    def _partitions(self, ready: list[AddressProbe]) -> CheckStep:
        leaderless, lagging, count = [], [], 0
        for topic in ready[0].metadata.topics:
            for partition in topic.partitions:
                count += 1
                name = f"{topic.name}-{partition.partition_index}"
                if partition.leader_id < 0:
                    leaderless.append(name)
                elif len(partition.isr_nodes) < len(partition.replica_nodes):
                    lagging.append(name)
        if leaderless:
            detail = f"{len(leaderless)} of {count} partitions have no leader: {_some(leaderless)}"
            fix = "start the brokers that hold their replicas"
            return CheckStep("partitions", CheckStatus.FAILED, detail, fix)
        if lagging:
            detail = (
                f"{len(lagging)} of {count} partitions have replicas that are not in sync: {_some(lagging)}"
            )
            fix = "wait for the replicas, or check the brokers that hold them"
            return CheckStep("partitions", CheckStatus.WARNING, detail, fix)
        return CheckStep(
            "partitions",
            CheckStatus.OK,
            f"{counted(count, 'partition has', 'partitions have')} a leader and all replicas",
        )

    def _versions(self, ready: list[AddressProbe]) -> CheckStep:
        by_ranges: dict[tuple[tuple[int, tuple[int, int]], ...], list[str]] = {}
        for probe in ready:
            if probe.versions is not None:
                ranges = tuple(sorted(probe.versions.ranges.items()))
                by_ranges.setdefault(ranges, []).append(probe.name)
        if len(by_ranges) > 1:
            return CheckStep(
                "versions",
                CheckStatus.WARNING,
                "brokers of different versions: "
                + " | ".join(", ".join(names) for names in by_ranges.values()),
                "finish the upgrade of all brokers",
            )
        return CheckStep("versions", CheckStatus.OK, "all brokers support the same API versions")


def _is_done(probe: AddressProbe) -> bool:
    return probe.done.is_done


def _result(probe: AddressProbe) -> BrokerCheck:
    is_advertised = probe.broker_id is not None
    return BrokerCheck(probe.address, probe.broker_id, probe.is_bootstrap, is_advertised, probe.result())


def _view(probe: AddressProbe) -> tuple[str | None, tuple[tuple[int, str, int], ...]]:
    metadata = probe.metadata
    brokers = sorted((one.node_id, one.host, one.port) for one in metadata.brokers)
    return metadata.cluster_id, tuple(brokers)


def _difference(ready: list[AddressProbe]) -> str | None:
    """Return how the brokers' views of the cluster differ, or None."""
    views = {probe.name: _view(probe) for probe in ready}
    usual = Counter(views.values()).most_common(1)[0][0]
    found = []
    for name, view in views.items():
        if view[0] != usual[0]:
            found.append(f"{name} belongs to cluster {view[0]}, others to {usual[0]}")
        elif view != usual:
            found.append(f"{name} lists {_listed(view)}, others list {_listed(usual)}")
    return "; ".join(found) or None


def _listed(view: tuple[str | None, tuple[tuple[int, str, int], ...]]) -> str:
    return "brokers " + ", ".join(f"{node}={host}:{port}" for node, host, port in view[1])


def _some(names: list[str], most: int = 5) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} ..." if len(names) > most else shown
