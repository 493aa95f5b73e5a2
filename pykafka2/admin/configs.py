"""Configurations of topics, brokers, groups (DescribeConfigs, IncrementalAlterConfigs)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pykafka2.admin.config_values import ConfigEntry, ConfigResource
from pykafka2.admin.outcomes import Outcomes
from pykafka2.admin.unavailable import not_yet


class ConfigsAdmin:
    """The configuration calls of `KafkaAdminClient`. Timeouts are seconds; thread-safe."""

    def describe_configs(
        self, resources: Iterable[ConfigResource], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[ConfigResource, dict[str, ConfigEntry]]:
        """Returns all settings of each resource with their sources; sensitive values are None."""
        not_yet("KafkaAdminClient.describe_configs")

    def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[ConfigResource, None]:
        """Alter settings; None restores a default. Other settings stay unchanged (KIP-339)."""
        not_yet("KafkaAdminClient.alter_configs")
