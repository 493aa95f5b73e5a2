"""Controls of client quotas: set, remove and list them.

Part of `Controls` (controls/controls.py).  Quotas go through the controller like those of clients, and are in
effect on every running broker when a call returns, unless its metadata is held.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from pykafka2.broker.config.keys import nearest
from pykafka2.broker.controller.client_quotas import QuotaAlteration, alter_client_quotas
from pykafka2.broker.controller.controller import Controller
from pykafka2.broker.controller.records import ClientQuotaSet
from pykafka2.broker.quotas.entities import CLIENT_ID, IP, USER, QuotaEntity, entity_of, keys_of
from pykafka2.errors import ConfigurationError
from pykafka2.testing.running import Running

DEFAULT: Final = "<default>"
"""The name of the default entity, whose quotas apply to all that have none of their own."""


class QuotaControls:
    """`controls.set_quota(client_id="app", producer_byte_rate=1_000_000)`."""

    def __init__(self, running: Running) -> None:
        self._running = running

    def set_quota(
        self, user: str | None, client_id: str | None, ip: str | None, quotas: dict[str, float | None]
    ) -> None:
        named = {USER: user, CLIENT_ID: client_id, IP: ip}
        entity = entity_of(
            {kind: _name(kind, name) for kind, name in named.items() if name is not None},
        )
        if not entity:
            raise ConfigurationError("No entity is named. Set user=, client_id=, both, or ip=.")
        keys = keys_of(entity)
        if not quotas:
            raise ConfigurationError(f"No quota is set. Use one or more of {', '.join(keys)}.")
        for key, value in quotas.items():
            if key not in keys:
                raise ConfigurationError(
                    f"This entity has no quota {key!r}{nearest(key, keys)}. It can have {', '.join(keys)}."
                )
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            # Neither NaN and infinity, nor an int that no float can hold.
            if value is not None and not (is_number and abs(value) <= sys.float_info.max):
                raise ConfigurationError(f"{key}={value!r} is illegal. Set a number, or None to remove it.")
        self._running.check()
        alteration = QuotaAlteration(
            entity, [(key, None if value is None else float(value)) for key, value in quotas.items()]
        )
        outcome = self._running.controllers.run(
            "client quotas", lambda active: alter_client_quotas(active, [alteration])
        )
        error = outcome[entity]
        if error is not None:
            raise ConfigurationError(str(error))

    def quotas(self) -> list[dict[str, Any]]:
        self._running.check()
        return [_as_dict(entity, values) for entity, values in self._running.controllers.image.quotas.items()]

    def clear_quotas(self) -> None:
        self._running.check()
        if self._running.controllers.image.quotas:
            self._running.controllers.run("remove client quotas", _remove_all)


def _remove_all(controller: Controller) -> None:
    controller.write(
        [
            ClientQuotaSet(entity, key, None)
            for entity, values in controller.state.quotas.items()
            for key in values
        ]
    )


def _name(kind: str, name: object) -> str | None:
    """Returns the name of an entity, None for the default one."""
    if not isinstance(name, str) or not name:
        raise ConfigurationError(
            f"{kind.replace('-', '_')}={name!r} is illegal. Set a name, or {DEFAULT!r} for the default."
        )
    return None if name == DEFAULT else name


def _as_dict(entity: QuotaEntity, values: Any) -> dict[str, Any]:
    names = {kind.replace("-", "_"): DEFAULT if name is None else name for kind, name in entity}
    return {**names, "quotas": dict(values)}
