"""Controls of client quotas: set, remove and list them.

A mixin of `Controls` (controls/controls.py).  The controller writes the quotas, as those of clients.  When a
call returns, they are in effect on all running brokers except those whose metadata is held.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from pykafka2.broker.config.keys import nearest
from pykafka2.broker.controller.control.client_quotas import QuotaAlteration, alter_client_quotas
from pykafka2.broker.controller.controller import Controller
from pykafka2.broker.controller.metadata.records import quota_record
from pykafka2.broker.quotas.entities import (
    CLIENT_ID,
    IP,
    OF_ADDRESSES,
    OF_CLIENTS,
    USER,
    QuotaEntity,
    entity_of,
    keys_of,
)
from pykafka2.errors import ConfigurationError
from pykafka2.testing.running import Running

DEFAULT: Final = "<default>"
"""The name of the default entity. Its quotas apply to each user, client id or address without its own."""


KINDS: Final = {"user": USER, "client_id": CLIENT_ID, "ip": IP}
"""Types of an entity by the argument that names them."""


class QuotaControls:
    """`controls.set_quota(client_id="app", producer_byte_rate=1_000_000)`."""

    _running: Running

    def set_quota(
        self,
        *,
        user: str | None = None,
        client_id: str | None = None,
        ip: str | None = None,
        **quotas: float | None,
    ) -> None:
        """Set quotas: `set_quota(client_id="app", producer_byte_rate=1_000_000)`.  A user, a client id, or
        both can have `producer_byte_rate`, `consumer_byte_rate`, `request_percentage` and
        `controller_mutation_rate`, an IP address `connection_creation_rate`.  None removes a quota.

        The name `"<default>"` means all users, client ids or addresses without a quota of their own.  Quotas
        that are not named stay.  Raise `ConfigurationError` for other names and for illegal values.
        """
        names = {"user": user, "client_id": client_id, "ip": ip}
        named = {argument: name for argument, name in names.items() if name is not None}
        entity = _entity(named, quotas)
        _check_quotas(entity, quotas)
        self._running.check()
        alteration = QuotaAlteration(
            entity, [(key, None if value is None else float(value)) for key, value in quotas.items()]
        )
        outcome = self._running.controllers.run(
            "client quotas", lambda active: alter_client_quotas(active, [alteration])
        )
        error = outcome[entity]
        if error is not None:
            shown = ", ".join(f"{name}={value!r}" for name, value in {**named, **quotas}.items())
            raise ConfigurationError(f"{shown}: {error}")

    def quotas(self) -> list[dict[str, Any]]:
        """Return all quotas: [{"client_id": "app", "quotas": {"producer_byte_rate": 1000000.0}}]."""
        self._running.check()
        return [_as_dict(entity, values) for entity, values in self._running.controllers.image.quotas.items()]

    def clear_quotas(self) -> None:
        """Remove all quotas.  Muted connections stay muted until their throttle time is over."""
        self._running.check()
        if self._running.controllers.image.quotas:
            self._running.controllers.run("remove client quotas", _remove_all)


def _remove_all(controller: Controller) -> None:
    controller.write(
        [
            quota_record(entity, key, None)
            for entity, values in controller.state.quotas.items()
            for key in values
        ]
    )


def _entity(named: dict[str, str], quotas: dict[str, float | None]) -> QuotaEntity:
    """Return the entity with these names by argument. Raise for an invalid one."""
    for argument, name in named.items():
        if not isinstance(name, str) or not name:
            raise ConfigurationError(
                f"{argument}={name!r} is illegal. Set a name, or {DEFAULT!r} for the default."
            )
    if not named:
        # A misspelt argument is among the quotas, as set_quota accepts any keyword.
        unknown = next((key for key in quotas if key not in (*OF_CLIENTS, *OF_ADDRESSES)), None)
        hint = "" if unknown is None else f", and {unknown!r} is unknown{nearest(unknown, KINDS)}"
        raise ConfigurationError(f"No entity is named{hint}. Set user=, client_id=, both, or ip=.")
    if "ip" in named and len(named) > 1:
        shown = ", ".join(f"{argument}={name!r}" for argument, name in named.items())
        raise ConfigurationError(f"{shown} cannot be combined. Set user=, client_id=, both, or ip=.")
    return entity_of({KINDS[argument]: None if name == DEFAULT else name for argument, name in named.items()})


def _check_quotas(entity: QuotaEntity, quotas: dict[str, float | None]) -> None:
    """Raise for a quota that the entity cannot have, and for an illegal value."""
    keys = keys_of(entity)
    if not quotas:
        raise ConfigurationError(f"No quota is set. Use one or more of {', '.join(keys)}.")
    for key, value in quotas.items():
        if key not in keys:
            owner = "An IP address" if keys is OF_ADDRESSES else "A user or client id"
            close = "" if key in (*OF_CLIENTS, *OF_ADDRESSES) else nearest(key, (*keys, *KINDS))
            raise ConfigurationError(f"{owner} has no quota {key!r}{close}; use {', '.join(keys)}")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        # Above 0, and neither NaN nor infinity, nor an int that no float can hold.
        if value is not None and not (is_number and 0 < value <= sys.float_info.max):
            raise ConfigurationError(
                f"{key}={value!r} is illegal. Set a number above 0, or None to remove the quota."
            )


def _as_dict(entity: QuotaEntity, values: Any) -> dict[str, Any]:
    names = {kind.replace("-", "_"): DEFAULT if name is None else name for kind, name in entity}
    return {**names, "quotas": dict(values)}
