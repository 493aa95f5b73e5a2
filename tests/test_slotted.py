"""`slotted` is attrs.define for internal classes: the same classes, compiled with their first use."""

from __future__ import annotations

import copy
import pickle
import weakref
from typing import Any, Generic, TypeVar

import pytest

from pykafka2.slotted import slot, slotted

T = TypeVar("T")


@slotted
class Counted:
    name: str
    _offsets: list[int] = slot(factory=list)
    secret: str = slot(default="", repr=False)
    limit: int = 5

    def twice(self) -> int:
        return 2 * self.limit


@slotted(frozen=True)
class Place:
    """Where a partition is."""

    host: str
    port: int = 9092


@slotted(frozen=True)
class NamedPlace(Place):
    name: str = ""


@slotted(eq=False)
class Held(Generic[T]):
    value: T | None = None


@slotted(frozen=True)
class Nowhere:
    pass


def test_positional_and_keyword_arguments_and_defaults_set_the_fields() -> None:
    counted = Counted("a", limit=7)
    assert (counted.name, counted._offsets, counted.secret, counted.limit) == ("a", [], "", 7)
    assert counted.twice() == 14
    made: Any = Counted
    assert made("a", offsets=[1])._offsets == [1]  # as in attrs, without the underscore


def test_a_factory_creates_a_value_for_each_instance() -> None:
    assert Counted("a")._offsets is not Counted("a")._offsets


@pytest.mark.parametrize("arguments", [(), ("a", [], "", 1, 2)])
def test_wrong_number_of_arguments_raises_type_error(arguments: tuple[object, ...]) -> None:
    made: Any = Counted
    with pytest.raises(TypeError, match=r"Counted\.__init__|__init__"):
        made(*arguments)


def test_instance_has_slots_and_can_be_referenced_weakly() -> None:
    counted: Any = Counted("a")
    assert not hasattr(counted, "__dict__")
    with pytest.raises(AttributeError):
        counted.nmae = "b"
    assert weakref.ref(counted)() is counted


def test_repr_names_the_shown_fields() -> None:
    assert repr(Counted("a", secret="x")) == "Counted(name='a', _offsets=[], limit=5)"
    looped: Held[object] = Held()
    looped.value = looped
    assert repr(looped) == "Held(value=...)"


def test_equality_compares_class_and_fields() -> None:
    assert Counted("a") == Counted("a") != Counted("b")
    assert Place("a") != NamedPlace("a")
    assert Nowhere() == Nowhere()
    assert Held(1) != Held(1)
    assert Counted("a") != "a"


def test_mutable_instances_with_equality_are_not_hashable() -> None:
    with pytest.raises(TypeError):
        hash(Counted("a"))


def test_frozen_instances_are_hashable_and_refuse_changes() -> None:
    place: Any = NamedPlace("a", 1, "b")
    assert {place: 1}[NamedPlace("a", 1, name="b")] == 1
    with pytest.raises(AttributeError, match="NamedPlace is frozen"):
        place.port = 2
    with pytest.raises(AttributeError, match="NamedPlace is frozen"):
        del place.port


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))]
)
@pytest.mark.parametrize("value", [NamedPlace("a", 1, "b"), Counted("a", limit=7), Nowhere()], ids=repr)
def test_instances_can_be_copied_and_pickled(value: Any, copied: Any) -> None:
    assert copied(value) == value


def test_fields_of_the_base_come_first() -> None:
    match NamedPlace("a", 1, "b"):
        case NamedPlace(host, port, name):
            assert (host, port, name) == ("a", 1, "b")


def test_init_is_compiled_with_the_first_instance() -> None:
    @slotted
    class Unused:
        offset: int

    before: Any = Unused.__init__
    Unused(1)
    assert Unused.__init__ is not before
    late = Unused.__new__(Unused)
    before(late, 2)  # another thread that took the function before it was replaced
    assert late == Unused(2)


def test_docstring_name_and_module_stay() -> None:
    assert Place.__doc__ == "Where a partition is."
    assert (Place.__module__, Place.__qualname__) == (__name__, "Place")


@pytest.mark.parametrize(
    "value", [Place("a"), NamedPlace("a", 1, "b"), Nowhere(), Counted("a", [1], limit=7)]
)
def test_instances_can_be_copied_and_pickled(value: object) -> None:
    assert copy.copy(value) == value
    assert copy.deepcopy(value) == value
    assert pickle.loads(pickle.dumps(value)) == value
