"""The quota manager of a broker: measures the rates of clients and returns throttle times (KIP-13, KIP-124).

Access requires the cluster's lock. The caller passes the time; nothing here waits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.quotas.entities import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    Quotas,
    address_named,
)
from pykafka2.broker.quotas.rates import MOST, TokenBucket, WindowedRate
from pykafka2.errors import ThrottlingQuotaExceeded

IDLE_MS: Final = 3_600_000
"""The rates of clients that were idle for this long are dropped."""

Tags = tuple[str, str]
"""User and client id that are measured together; "" means any."""

M = TypeVar("M", WindowedRate, TokenBucket)


class KeyQuotas(Generic[M]):
    """The quotas of one key, such as producer_byte_rate: limits and measured rates of clients.

    The most specific quota applies (Kafka's DefaultQuotaCallback):

    | | entity of the quota | measured together |
    |---|---|---|
    | 1 | user and client id | this user with this client id |
    | 2 | user and default client id | this user with this client id |
    | 3 | user | this user |
    | 4 | default user and client id | this user with this client id |
    | 5 | default user and default client id | this user with this client id |
    | 6 | default user | this user |
    | 7 | client id | this client id |
    | 8 | default client id | this client id |

    For a client with an empty client id, only 3 and 6 apply.
    """

    def __init__(self, new_meter: Callable[[], M]) -> None:
        self._new_meter: Callable[[], M] = new_meter
        self._limits: dict[tuple[str | None, str | None], float] = {}
        self._meters: dict[Tags, M] = {}
        self._used_ms: dict[Tags, int] = {}
        self._cleaned_ms = 0

    def __bool__(self) -> bool:
        """Return whether any entity has this quota."""
        return bool(self._limits)

    def apply(self, changed: Quotas, key: str) -> None:
        """Set the limits of the changed entities; an entity without quotas is removed.

        Measured rates are kept, unless no entity has the quota any more.
        """
        limits = self._limits
        for entity, values in changed.items():
            names = dict(entity)
            # "" is a type that the entity does not name, None the default entity of a type.
            of_client = names.get(USER, ""), names.get(CLIENT_ID, "")
            if key in values:
                limits[of_client] = values[key]
            else:
                limits.pop(of_client, None)
        if not limits:
            self._meters.clear()
            self._used_ms.clear()

    def limit(self, user: str, client_id: str) -> tuple[Tags, float | None]:
        """Return the tags under which a client is measured, and its limit, or None if it has no quota."""
        limits = self._limits
        both: Tags = (user, client_id)
        for tags, entity in (
            (both, (user, client_id)),
            (both, (user, None)),
            ((user, ""), (user, "")),
            (both, (None, client_id)),
            (both, (None, None)),
            ((user, ""), (None, "")),
        ):
            if entity in limits:
                # Tags without a client id belong to a user, so only quotas of users alone apply.
                found = limits.get((user, ""), limits.get((None, ""))) if not tags[1] else limits[entity]
                return tags, found
        if not client_id:
            return ("", ""), None
        return ("", client_id), limits.get(("", client_id), limits.get(("", None)))

    def meter(self, tags: Tags, now_ms: int) -> M:
        """Return the rate or bucket of these tags, and create it on first use."""
        if now_ms - self._cleaned_ms >= IDLE_MS:
            self._cleaned_ms = now_ms
            for idle in [tags for tags, used_ms in self._used_ms.items() if now_ms - used_ms >= IDLE_MS]:
                del self._meters[idle], self._used_ms[idle]
        meter = self._meters.get(tags)
        if meter is None:
            meter = self._meters[tags] = self._new_meter()
        self._used_ms[tags] = now_ms
        return meter


class MutationQuota:
    """The controller mutation quota of one request (KIP-599): each partition takes a token.

    `throttle_ms` is the time until the bucket is no longer overdrawn.
    """

    def __init__(
        self, quotas: KeyQuotas[TokenBucket], user: str, client_id: str, now_ms: int, *, is_strict: bool
    ) -> None:
        tags, self._limit = quotas.limit(user, client_id)
        self._bucket = quotas.meter(tags, now_ms)
        self._now_ms = now_ms
        self._is_strict = is_strict
        self.throttle_ms = 0

    def record(self, partitions: int) -> None:
        """Take tokens. Raise `ThrottlingQuotaExceeded` if strict and the bucket is overdrawn already."""
        limit = self._limit
        if limit is None:
            return
        if self._is_strict:
            overdrawn_ms = self._bucket.throttle_ms(limit, self._now_ms)
            if overdrawn_ms:
                self.throttle_ms = overdrawn_ms
                raise ThrottlingQuotaExceeded
            self._bucket.take(partitions, limit, self._now_ms)
        else:
            self._bucket.take(partitions, limit, self._now_ms)
            self.throttle_ms = self._bucket.throttle_ms(limit, self._now_ms)


class ClientQuotas:
    """All client quotas of one broker.

    A rate r above its limit q, measured over w milliseconds, throttles for (r - q) / q * w milliseconds. w
    is the time since the start of the oldest of `quota.window.num` windows, and at least the length of all
    windows but one. The request quota throttles for at most one window. A bucket overdrawn by t tokens
    throttles for t / q * 1000 milliseconds.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._windows = config.int("quota.window.num")
        self._window_ms = config.int("quota.window.size.seconds") * 1000
        buckets = config.int("controller.quota.window.num")
        bucket_ms = config.int("controller.quota.window.size.seconds") * 1000

        def rate() -> WindowedRate:
            return WindowedRate(self._windows, self._window_ms)

        self._applied: Quotas = {}
        self._produce = KeyQuotas(rate)
        self._fetch = KeyQuotas(rate)
        self._request = KeyQuotas(rate)
        self._mutation = KeyQuotas(lambda: TokenBucket(buckets, bucket_ms))
        self.is_active = False
        """Whether any client has a quota."""

    def apply(self, quotas: Quotas) -> bool:
        """Apply the quotas of a metadata image. Return True if they changed."""
        if quotas is self._applied:
            return False
        applied, self._applied = self._applied, quotas
        changed = _changed_entities(applied, quotas)
        self._produce.apply(changed, PRODUCER_BYTE_RATE)
        self._fetch.apply(changed, CONSUMER_BYTE_RATE)
        self._request.apply(changed, REQUEST_PERCENTAGE)
        self._mutation.apply(changed, CONTROLLER_MUTATION_RATE)
        self.is_active = bool(self._produce or self._fetch or self._request or self._mutation)
        return True

    def produced(self, user: str, client_id: str, size_bytes: int, now: float) -> int:
        """Record a produce request. Return the throttle time in milliseconds."""
        return _recorded(self._produce, user, client_id, size_bytes, _ms(now))

    def handled(self, user: str, client_id: str, seconds: float, now: float) -> int:
        """Record the time that a handler spent on a request. Return the throttle time in milliseconds."""
        return min(_recorded(self._request, user, client_id, seconds * 100.0, _ms(now)), self._window_ms)

    def fetched(
        self, user: str, client_id: str, size_of_response: Callable[[], int], seconds: float, now: float
    ) -> int:
        """Record a fetch response and the time that it took. Return the throttle time in milliseconds.

        If it is not 0, the caller must send an empty response; its bytes are not counted.
        """
        throttle_ms = self.handled(user, client_id, seconds, now)
        if not self._fetch:
            return throttle_ms
        now_ms, size_bytes = _ms(now), size_of_response()
        throttle_ms = max(throttle_ms, _recorded(self._fetch, user, client_id, size_bytes, now_ms))
        if throttle_ms:
            self._fetch.meter(self._fetch.limit(user, client_id)[0], now_ms).record(-size_bytes, now_ms)
        return throttle_ms

    def max_fetch_bytes(self, user: str, client_id: str) -> int | None:
        """Return the most bytes of a fetch that can ever stay below the quota, or None without a quota."""
        limit = self._fetch.limit(user, client_id)[1]
        if limit is None:
            return None
        most = limit * (self._windows - 1) * self._window_ms / 1000.0
        return MOST if most >= MOST else 0 if math.isnan(most) else int(most)

    def mutation(self, user: str, client_id: str, now: float, *, is_strict: bool) -> MutationQuota:
        """Return the controller mutation quota for one request."""
        return MutationQuota(self._mutation, user, client_id, _ms(now), is_strict=is_strict)


def _changed_entities(before: Quotas, after: Quotas) -> Quotas:
    """Return the quotas of each entity that differ, which are empty for a removed entity.

    A change replaces the quotas of its entity, so comparing identities suffices and costs little per entity.
    """
    changed = {entity: values for entity, values in after.items() if before.get(entity) is not values}
    return {entity: {} for entity in before.keys() - after.keys()} | changed


def connection_rates(quotas: Quotas) -> dict[str | None, float]:
    """Return the limits of new connections per second by IP address; the key None is the default."""
    return {
        address_named(dict(entity)[IP]): values[CONNECTION_CREATION_RATE]
        for entity, values in quotas.items()
        if CONNECTION_CREATION_RATE in values
    }


def _ms(now: float) -> int:
    return int(now * 1000)


def _recorded(quotas: KeyQuotas[WindowedRate], user: str, client_id: str, value: float, now_ms: int) -> int:
    if not quotas:
        return 0
    tags, limit = quotas.limit(user, client_id)
    meter = quotas.meter(tags, now_ms)
    meter.record(value, now_ms)
    return 0 if limit is None else meter.throttle_ms(limit, now_ms)
