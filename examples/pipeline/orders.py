"""Orders, generated from a seed, and their totals in plain Python."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass

CATEGORIES = ("books", "games", "garden", "music", "tools")
PRODUCTS = {f"product-{number}": CATEGORIES[number % len(CATEGORIES)] for number in range(40)}
WINDOW_MS = 60_000
FIRST_MS = 1_767_225_600_000
"""2026-01-01 00:00 UTC."""

Totals = dict[tuple[int, str], tuple[int, int]]
"""(start of the window in ms, category) to (number of orders, cents)."""


@dataclass(frozen=True)
class Order:
    id: int
    customer: str
    product: str
    cents: int
    at_ms: int


def make_orders(count: int, seed: int) -> list[Order]:
    """Return twenty orders a second, up to half a minute out of order, some for unknown products."""
    chance = random.Random(seed)
    orders = []
    for number in range(count):
        name = f"product-{chance.randrange(len(PRODUCTS) + 2)}"
        at_ms = FIRST_MS + number * 50 - chance.randrange(30_000)
        customer = f"customer-{chance.randrange(500)}"
        orders.append(Order(number, customer, name, chance.randrange(100, 20_000), max(at_ms, FIRST_MS)))
    return orders


def the_last_order(orders: list[Order]) -> Order:
    """Return an order for an unknown product that is late enough to close all earlier windows."""
    return Order(len(orders), "no customer", "none", 0, max(one.at_ms for one in orders) + 10 * WINDOW_MS)


def encoded(orders: Iterable[Order]) -> list[bytes]:
    return [json.dumps(asdict(one)).encode() for one in orders]


def plain_totals(orders: Iterable[Order]) -> Totals:
    found: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])
    for one in orders:
        category = PRODUCTS.get(one.product)
        if category is not None:
            total = found[one.at_ms - one.at_ms % WINDOW_MS, category]
            total[0] += 1
            total[1] += one.cents
    return {key: (count, cents) for key, (count, cents) in found.items()}
