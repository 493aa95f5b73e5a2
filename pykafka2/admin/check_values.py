"""The results of `check_cluster`: steps with cause and fix, by broker and for the whole cluster."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import attrs


class CheckStatus(StrEnum):
    """The outcome of a step; only `FAILED` makes a check fail."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@attrs.define(frozen=True)
class CheckStep:
    """One step of a check.

    `detail` is what was found, or the cause of a failure; `fix` is what to do about it. `seconds` is None
    for steps that only compare what others have found.
    """

    name: str
    status: CheckStatus
    detail: str
    fix: str | None = None
    seconds: float | None = None


@attrs.define(frozen=True)
class BrokerCheck:
    """The steps of one address: dns, port, tls, api_versions, sasl, metadata, identity; clock if requested.

    `broker_id` is None for a bootstrap address that no broker advertises.
    """

    address: str
    broker_id: int | None
    is_bootstrap: bool
    is_advertised: bool
    steps: tuple[CheckStep, ...]

    @property
    def has_passed(self) -> bool:
        """Whether no step has failed."""
        return all(step.status is not CheckStatus.FAILED for step in self.steps)

    def step(self, name: str) -> CheckStep:
        """Return a step by its name. Raise KeyError."""
        for step in self.steps:
            if step.name == name:
                return step
        raise KeyError(name)


@attrs.define(frozen=True)
class ClusterCheck:
    """The result of `check_cluster`: all addresses, and the steps that concern the whole cluster.

    Those are agreement, partitions, versions and clock.
    """

    cluster_id: str | None
    brokers: tuple[BrokerCheck, ...]
    steps: tuple[CheckStep, ...]

    @property
    def has_passed(self) -> bool:
        """Whether no step of any broker or of the cluster has failed."""
        own = all(step.status is not CheckStatus.FAILED for step in self.steps)
        return own and all(broker.has_passed for broker in self.brokers)

    def step(self, name: str) -> CheckStep:
        """Return a step of the whole cluster by its name. Raise KeyError."""
        for step in self.steps:
            if step.name == name:
                return step
        raise KeyError(name)

    def as_dict(self) -> Mapping[str, Any]:
        """Return the result as dicts and lists, for JSON."""
        return {
            "passed": self.has_passed,
            "cluster_id": self.cluster_id,
            "brokers": [
                {
                    "address": broker.address,
                    "broker": broker.broker_id,
                    "bootstrap": broker.is_bootstrap,
                    "advertised": broker.is_advertised,
                    "passed": broker.has_passed,
                    "steps": [_step_as_dict(step) for step in broker.steps],
                }
                for broker in self.brokers
            ],
            "steps": [_step_as_dict(step) for step in self.steps],
        }


def _step_as_dict(step: CheckStep) -> dict[str, Any]:
    return {
        "name": step.name,
        "status": step.status.value,
        "detail": step.detail,
        "fix": step.fix,
        "seconds": step.seconds,
    }
