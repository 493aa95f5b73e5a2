"""The outcomes of an admin call with several items, one per item."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from pykafka2.errors import CorruptResponse, KafkaError, NotController, RequestTimedOut
from pykafka2.text import shown

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ItemsFailed(KafkaError):
    """Some items of an admin call failed; `outcomes` has each item's value or error."""

    def __init__(self, operation: str, outcomes: Outcomes[K, V]) -> None:
        failed = "; ".join(
            f"{shown(str(key))}: {type(error).__name__}: {error}" for key, error in outcomes.errors.items()
        )
        super().__init__(f"{operation} failed for {len(outcomes.errors)} of {len(outcomes)}: {failed}")
        self.outcomes = outcomes


class Outcomes(Mapping[K, V], Generic[K, V]):
    """A mapping from item to value; reading an item that failed raises its own error.

    `errors` holds the failures. Admin calls raise `ItemsFailed` if any item failed, unless `raise_errors` is
    False; so an ignored result never hides a failure.
    """

    def __init__(self, values: Mapping[K, V], errors: Mapping[K, KafkaError] | None = None) -> None:
        self._values = dict(values)
        self.errors: dict[K, KafkaError] = dict(errors or {})

    @classmethod
    def of_all(
        cls, requested: Iterable[K], values: Mapping[K, V], errors: Mapping[K, KafkaError]
    ) -> Outcomes[K, V]:
        """Return the outcomes of the requested items. Raise CorruptResponse if one is missing."""
        items = dict.fromkeys(requested)
        missing = [item for item in items if item not in values and item not in errors]
        if missing:
            raise CorruptResponse(f"the response has no result for {', '.join(map(repr, missing))}")
        return cls(
            {item: values[item] for item in items if item in values},
            {item: errors[item] for item in items if item in errors},
        )

    def __getitem__(self, key: K) -> V:
        if key in self.errors:
            raise self.errors[key]
        return self._values[key]

    @property
    def succeeded(self) -> dict[K, V]:
        """The values of the items that did not fail."""
        return {key: value for key, value in self._values.items() if key not in self.errors}

    def __contains__(self, key: object) -> bool:
        return key in self._values or key in self.errors

    def __iter__(self) -> Iterator[K]:
        yield from (key for key in self._values if key not in self.errors)
        yield from self.errors

    def __len__(self) -> int:
        return len(self._values.keys() | self.errors.keys())

    def __repr__(self) -> str:
        return f"Outcomes({self._values!r}, errors={self.errors!r})"

    def checked(self, operation: str, raise_errors: bool) -> Outcomes[K, V]:
        """Return itself; raise ItemsFailed if an item failed and `raise_errors` is True."""
        if raise_errors and self.errors:
            raise ItemsFailed(operation, self)
        return self


class Listings(list[V]):
    """A list that all brokers have a part of; `errors` has an error for each broker id whose part is missing.

    With `raise_errors=True` the call raises if a part is missing, so `errors` is empty.
    """

    def __init__(self, items: Iterable[V], errors: Mapping[int, KafkaError]) -> None:
        super().__init__(items)
        self.errors: dict[int, KafkaError] = dict(errors)


class _Item(Protocol):
    error_code: int


def error_to_retry(items: Iterable[_Item]) -> KafkaError | None:
    """Return the error for which a request to the controller is repeated, or None.

    It is `NotController`, from brokers with ZooKeeper, or `RequestTimedOut` if all items have that. The
    limits of broker and client are equal, so either can be first, and the client repeats the request after
    its own, too.
    """
    codes = {item.error_code for item in items}
    if NotController.code in codes:
        return NotController()
    return RequestTimedOut() if codes == {RequestTimedOut.code} else None
