"""Lookup of APIs and errors by the names that tests use; a misspelt name raises with the nearest one."""

from __future__ import annotations

import re
from typing import Any

from pykafka2 import errors
from pykafka2.broker.config.keys import nearest
from pykafka2.errors import BrokerError, ConfigurationError
from pykafka2.protocol.registry import API_KEYS
from pykafka2.protocol.struct import Request

ApiName = str | int | type[Request[Any]]
"""An API: a name such as "Produce", an API key, or a request class."""


def api_name(api: ApiName) -> str:
    """Return Kafka's name of an API for a name, key or request class. Raise if it is unknown."""
    return API_KEYS[api_key(api)].name


def api_key(api: ApiName) -> int:
    if isinstance(api, type):
        return api.API_KEY
    for info in API_KEYS.values():
        if (api == info.key and not isinstance(api, bool)) or (
            isinstance(api, str) and info.name == api.removesuffix("Request")
        ):
            return info.key
    close = nearest(str(api), [info.name for info in API_KEYS.values()])
    raise ConfigurationError(f"unknown request {api!r}{close}")


def error_name(error: type[BrokerError]) -> str:
    """Return Kafka's name of an error, such as NOT_LEADER_OR_FOLLOWER.

    Raise if brokers cannot return it.
    """
    if not (isinstance(error, type) and issubclass(error, BrokerError)) or error.code is None:
        what = error.__name__ if isinstance(error, type) else repr(error)
        raise ConfigurationError(
            f"a broker cannot return {what}; use a class of pykafka2.errors, such as NotLeaderOrFollower"
        )
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", _class_of_code(error).__name__).upper()


def error_class(name: str) -> type[BrokerError]:
    """Return the error class for Kafka's name, a class name or a code. Raise if it is unknown."""
    known: dict[str, type[BrokerError]] = {}
    for error in vars(errors).values():
        if isinstance(error, type) and issubclass(error, BrokerError) and error.code is not None:
            of_code = _class_of_code(error)
            for word in (error_name(of_code), of_code.__name__, str(of_code.code)):
                known[word] = of_code
    if name not in known:
        raise ConfigurationError(f"unknown error {name!r}{nearest(name, known)}")
    return known[name]


def _class_of_code(error: type[BrokerError]) -> type[BrokerError]:
    """Return the class for a code on the wire; clients raise subclasses, such as UnknownUntilTimeout."""
    known = errors.for_code(error.code) if error.code else error
    return known if known.code == error.code else error
