"""Kafka's names of APIs and errors, as people who write tests say them; a misspelt one names the nearest."""

from __future__ import annotations

import re
from typing import Any

from pykafka2 import errors
from pykafka2.broker.config.keys import nearest
from pykafka2.errors import BrokerError, ConfigurationError
from pykafka2.protocol.registry import API_KEYS
from pykafka2.protocol.struct import Request

ApiName = str | int | type[Request[Any]]
"""A name such as "Produce", an API key, or a request class."""


def api_name(api: ApiName) -> str:
    """Kafka's name of an API, given by name, key or request class; a misspelt one raises."""
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
    raise ConfigurationError(f"no request is called {api!r}{close}")


def error_name(error: type[BrokerError]) -> str:
    """Kafka's name of an error, such as NOT_LEADER_OR_FOLLOWER.  Raises for what no broker can answer."""
    if not (isinstance(error, type) and issubclass(error, BrokerError)) or error.code is None:
        what = error.__name__ if isinstance(error, type) else repr(error)
        raise ConfigurationError(
            f"no broker answers with {what}: say a class of pykafka2.errors, such as NotLeaderOrFollower"
        )
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", _class_of_code(error).__name__).upper()


def error_class(name: str) -> type[BrokerError]:
    """An error by Kafka's name, class name or code; a misspelt one raises."""
    known: dict[str, type[BrokerError]] = {}
    for error in vars(errors).values():
        if isinstance(error, type) and issubclass(error, BrokerError) and error.code is not None:
            answered = _class_of_code(error)
            for word in (error_name(answered), answered.__name__, str(answered.code)):
                known[word] = answered
    if name not in known:
        raise ConfigurationError(f"no error is called {name!r}{nearest(name, known)}")
    return known[name]


def _class_of_code(error: type[BrokerError]) -> type[BrokerError]:
    """The class that stands for a code on the wire; clients raise subclasses, such as UnknownUntilTimeout."""
    known = errors.for_code(error.code) if error.code else error
    return known if known.code == error.code else error
