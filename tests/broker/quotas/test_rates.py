"""Rates, token buckets, and the quota that applies to a client; pure state."""

from __future__ import annotations

from random import Random

import pytest

from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.quotas.client_quotas import IDLE_MS, ClientQuotas, KeyQuotas
from pykafka2.broker.quotas.entities import QuotaEntity, Quotas, entity_of
from pykafka2.broker.quotas.rates import TokenBucket, WindowedRate
from pykafka2.errors import ThrottlingQuotaExceeded

NAMES = {"u": "ann", "U": None}
CLIENTS = {"c": "app", "C": None}


def quotas_of(key: str, **limits: float) -> Quotas:
    """Limits by the initials of user and client id; capital ones are the defaults."""
    found = {}
    for initials, limit in limits.items():
        names: dict[str, str | None] = {}
        for initial in initials:
            if initial in NAMES:
                names["user"] = NAMES[initial]
            else:
                names["client-id"] = CLIENTS[initial]
        found[entity_of(names)] = {key: limit}
    return found


def test_a_rate_is_measured_over_at_least_all_windows_but_one() -> None:
    rate = WindowedRate(11, 1000)
    rate.record(5000, 0)
    assert rate.per_second(0) == 500
    assert rate.throttle_ms(500, 0) == 0
    rate.record(5000, 500)
    # 10,000 bytes over 10.5 seconds.
    assert rate.throttle_ms(500, 500) == round((10_000 / 10.5 - 500) / 500 * 10_500)


def test_the_throttle_time_grows_with_the_excess() -> None:
    rate = WindowedRate(11, 1000)
    rate.record(8000, 0)
    assert rate.throttle_ms(800, 0) == 0
    assert rate.throttle_ms(500, 0) == 6000
    assert rate.throttle_ms(400, 0) == 10_000


def test_samples_older_than_all_windows_are_dropped() -> None:
    rate = WindowedRate(11, 1000)
    rate.record(1_000_000, 0)
    assert rate.per_second(10_999) > 0
    assert rate.per_second(11_000) == 0


def test_a_window_that_overlaps_the_measured_ones_is_kept() -> None:
    rate = WindowedRate(3, 1000)
    for now_ms in range(0, 19_900, 100):
        rate.record(10, now_ms)
    assert rate.measured_ms(19_850) == 3850
    assert rate.per_second(19_850) == 390 / 3.85


def test_a_bucket_starts_full_and_can_be_overdrawn_once() -> None:
    bucket = TokenBucket(11, 1000)
    bucket.take(15, 1.0, 0)
    assert bucket.throttle_ms(1.0, 0) == 4000
    assert bucket.throttle_ms(1.0, 3999) == 1
    assert bucket.throttle_ms(1.0, 4000) == 0


def test_a_bucket_saves_no_more_tokens_than_a_burst() -> None:
    bucket = TokenBucket(11, 1000)
    bucket.take(1, 1.0, 0)
    bucket.take(15, 1.0, 3_600_000)
    assert bucket.throttle_ms(1.0, 3_600_000) == 4000


@pytest.mark.parametrize(
    ("wins", "loses"),
    [("uc", "uC"), ("uC", "u"), ("u", "Uc"), ("Uc", "UC"), ("UC", "U"), ("U", "c"), ("c", "C")],
)
def test_the_most_specific_quota_applies(wins: str, loses: str) -> None:
    quotas = ClientQuotas(BrokerConfig({}))
    quotas.apply(quotas_of("consumer_byte_rate", **{loses: 1.0, wins: 100.0}))
    assert quotas.max_fetch_bytes("ann", "app") == 1000


def test_only_quotas_of_users_apply_to_an_empty_client_id() -> None:
    quotas = ClientQuotas(BrokerConfig({}))
    quotas.apply(quotas_of("consumer_byte_rate", uC=1.0, C=1.0))
    assert quotas.max_fetch_bytes("ann", "") is None
    quotas.apply(quotas_of("consumer_byte_rate", uC=1.0, C=1.0, U=100.0))
    assert quotas.max_fetch_bytes("ann", "") == 1000


@pytest.mark.parametrize(
    ("named", "client_ids_share", "users_share"),
    [
        ("uC", False, False),
        ("u", True, False),
        ("Uc", True, False),
        ("UC", False, False),
        ("U", True, False),
        ("c", True, True),
        ("C", False, True),
    ],
)
def test_clients_share_a_rate_by_the_kind_of_entity(
    named: str, client_ids_share: bool, users_share: bool
) -> None:
    quotas = ClientQuotas(BrokerConfig({}))
    quotas.apply(quotas_of("producer_byte_rate", **{named: 100.0}))
    assert quotas.produced("ann", "app", 900, 0.0) == 0
    # A quota of a client id does not apply to another one at all.
    other = "app" if "c" in named else "other"
    assert (quotas.produced("ann", other, 900, 0.0) > 0) == client_ids_share
    bob = ClientQuotas(BrokerConfig({}))
    bob.apply(quotas_of("producer_byte_rate", **{named: 100.0}))
    assert bob.produced("ann", "app", 900, 0.0) == 0
    assert (bob.produced("bob", "app", 900, 0.0) > 0) == users_share


def test_rate_of_a_client_is_forgotten_after_an_idle_hour_and_not_before() -> None:
    quotas = KeyQuotas(lambda: WindowedRate(11, 1000))
    idle, used = ("", "idle"), ("", "used")
    meters = quotas.meter(idle, 0), quotas.meter(used, 0)
    assert quotas.meter(used, IDLE_MS - 1) is meters[1]
    assert quotas.meter(used, IDLE_MS) is meters[1]
    assert quotas.meter(idle, IDLE_MS) is not meters[0]


def test_changed_quota_keeps_the_measured_rate_and_a_removed_one_does_not() -> None:
    quotas = ClientQuotas(BrokerConfig({}))
    quotas.apply(quotas_of("producer_byte_rate", c=1000.0))
    assert quotas.produced("ann", "app", 5000, 0.0) == 0
    quotas.apply(quotas_of("producer_byte_rate", c=100.0))
    assert quotas.produced("ann", "app", 0, 0.0) == 40_000
    quotas.apply({})
    quotas.apply(quotas_of("producer_byte_rate", c=100.0))
    assert quotas.produced("ann", "app", 0, 0.0) == 0


class CountedReads(dict[str, float]):
    """The quotas of an entity that count how often they are searched for a key."""

    reads = 0

    def __contains__(self, key: object) -> bool:
        self.reads += 1
        return super().__contains__(key)


def test_change_of_one_entity_does_not_read_the_quotas_of_the_others() -> None:
    quotas = ClientQuotas(BrokerConfig({}))
    unchanged = CountedReads(consumer_byte_rate=1.0)
    first = {entity_of({"client-id": "other"}): unchanged}
    quotas.apply(first)
    reads = unchanged.reads
    quotas.apply(first | quotas_of("consumer_byte_rate", c=2.0))
    quotas.apply(first)
    assert unchanged.reads == reads
    assert quotas.max_fetch_bytes("ann", "other") == 10
    assert quotas.max_fetch_bytes("ann", "app") is None


def test_quotas_applied_change_by_change_equal_those_applied_at_once() -> None:
    random = Random(17)
    entities = [entity_of(names) for names in every_entity()]
    keys = ("consumer_byte_rate", "producer_byte_rate")
    changed, current = ClientQuotas(BrokerConfig({})), dict[QuotaEntity, dict[str, float]]()
    for _ in range(300):
        current = dict(current)
        for entity in random.sample(entities, 2):
            values = {key: float(random.randint(1, 9)) for key in keys if random.random() < 0.4}
            current.pop(entity, None)
            if values:
                current[entity] = values
        at_once = ClientQuotas(BrokerConfig({}))
        for applied in (changed, at_once):
            applied.apply(current)
        clients = [(user, client) for user in ("ann", "bob") for client in ("app", "web", "")]
        for user, client in clients:
            assert changed.max_fetch_bytes(user, client) == at_once.max_fetch_bytes(user, client)
        assert changed.is_active == at_once.is_active


def every_entity() -> list[dict[str, str | None]]:
    users: list[dict[str, str | None]] = [{}, {"user": None}, {"user": "ann"}]
    ids: list[dict[str, str | None]] = [{}, {"client-id": None}, {"client-id": "app"}]
    return [user | client for user in users for client in ids if user or client]


def test_windows_are_those_of_the_brokers_options() -> None:
    config = {
        "quota.window.num": 3,
        "quota.window.size.seconds": 2,
        "controller.quota.window.num": 5,
        "controller.quota.window.size.seconds": 4,
    }
    quotas = ClientQuotas(BrokerConfig(config))
    keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
    quotas.apply({entity_of({"client-id": "app"}): dict.fromkeys(keys, 10.0)})
    # Two complete windows of two seconds.
    assert quotas.produced("ann", "app", 80, 0.0) == 4000
    assert quotas.max_fetch_bytes("ann", "app") == 40
    assert quotas.handled("ann", "app", 100.0, 0.0) == 2000
    mutation = quotas.mutation("ann", "app", 0.0, is_strict=False)
    mutation.record(210)  # a burst of 200
    assert mutation.throttle_ms == 1000


def test_the_request_quota_throttles_for_one_window_at_most() -> None:
    quotas = ClientQuotas(BrokerConfig({}))
    quotas.apply(quotas_of("request_percentage", c=1.0))
    assert quotas.handled("ann", "app", 0.1, 0.0) == 0  # 10 % of a second in 10 seconds
    assert quotas.handled("ann", "app", 0.001, 0.0) == 100
    assert quotas.handled("ann", "app", 9.0, 0.0) == 1000


def test_a_throttled_fetch_is_not_counted() -> None:
    quotas = ClientQuotas(BrokerConfig({}))
    quotas.apply(quotas_of("consumer_byte_rate", c=100.0))
    assert quotas.fetched("ann", "app", lambda: 900, 0.0, 0.0) == 0
    for _ in range(3):
        assert quotas.fetched("ann", "app", lambda: 900, 0.0, 0.0) == 8000
    assert quotas.fetched("ann", "app", lambda: 100, 0.0, 0.0) == 0


def test_a_fetch_is_throttled_for_the_longer_time_of_both_quotas() -> None:
    quotas = ClientQuotas(BrokerConfig({}))
    quotas.apply({entity_of({"client-id": "app"}): {"consumer_byte_rate": 100.0, "request_percentage": 1.0}})
    assert quotas.fetched("ann", "app", lambda: 10, 9.0, 0.0) == 1000
    assert quotas.fetched("ann", "app", lambda: 1900, 0.0, 0.0) == 9000


def test_a_strict_mutation_is_rejected_while_the_bucket_is_overdrawn() -> None:
    quotas = ClientQuotas(BrokerConfig({}))
    quotas.apply(quotas_of("controller_mutation_rate", u=1.0))
    first = quotas.mutation("ann", "app", 0.0, is_strict=True)
    first.record(20)
    assert first.throttle_ms == 0
    second = quotas.mutation("ann", "app", 0.0, is_strict=True)
    with pytest.raises(ThrottlingQuotaExceeded):
        second.record(1)
    assert second.throttle_ms == 9000
    permissive = quotas.mutation("ann", "app", 0.0, is_strict=False)
    permissive.record(1)
    assert permissive.throttle_ms == 10_000
    other = quotas.mutation("bob", "app", 0.0, is_strict=True)
    other.record(1)


@pytest.mark.parametrize("limit", [float("nan"), float("inf"), 5e-324, 2.0**63])
def test_extreme_quotas_return_a_throttle_time(limit: float) -> None:
    """Kafka accepts NaN, and for percentages infinity."""
    quotas = ClientQuotas(BrokerConfig({}))
    keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
    quotas.apply({entity_of({"client-id": "app"}): dict.fromkeys(keys, limit)})
    for now in (0.0, 1.0):
        assert 0 <= quotas.produced("ann", "app", 1000, now) < 2**31
        assert 0 <= quotas.handled("ann", "app", 1.0, now) <= 1000
        assert 0 <= quotas.fetched("ann", "app", lambda: 1000, 1.0, now) < 2**31
        assert (quotas.max_fetch_bytes("ann", "app") or 0) >= 0
        mutation = quotas.mutation("ann", "app", now, is_strict=False)
        mutation.record(5)
        assert 0 <= mutation.throttle_ms < 2**31
