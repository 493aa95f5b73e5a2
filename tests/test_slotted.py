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
    """The address of a broker."""

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
    assert Place.__doc__ == "The address of a broker."
    assert (Place.__module__, Place.__qualname__) == (__name__, "Place")


@slotted
class Limit:
    """Has only values that can be hashed."""

    limit: int = 5


def test_mutable_instances_of_hashable_values_are_not_hashable_either() -> None:
    with pytest.raises(TypeError, match="unhashable type: 'Limit'"):
        hash(Limit())


def test_hashes_of_two_classes_differ_for_equal_fields() -> None:
    assert hash(Nowhere()) != hash(())

    @slotted(frozen=True)
    class OtherPlace:
        host: str
        port: int = 9092

    assert hash(OtherPlace("a")) != hash(Place("a"))


def base_and_derived() -> tuple[Any, Any]:
    """Return new classes: the getter of the fields is kept for each class from its first use on."""

    @slotted(frozen=True)
    class Base:
        host: str

    @slotted(frozen=True)
    class Derived(Base):
        name: str = ""

    return Base, Derived


def test_subclass_compares_its_own_fields_after_its_base_was_compared() -> None:
    base, derived = base_and_derived()
    assert base("a") == base("a")
    assert derived("a", "b") != derived("a", "c")


def test_subclass_hashes_its_own_fields_after_its_base_was_hashed() -> None:
    base, derived = base_and_derived()
    assert hash(base("a")) == hash(base("a"))
    assert hash(derived("a", "b")) != hash(derived("a", "c"))


def test_repr_of_a_class_in_a_function_names_the_class_alone() -> None:
    @slotted
    class Local:
        offset: int

    assert repr(Local(1)) == "Local(offset=1)"


def test_methods_that_the_class_defines_are_kept() -> None:
    @slotted
    class Own:
        offset: int

        def __eq__(self, other: object) -> bool:
            return True

        def __repr__(self) -> str:
            return "own"

    assert Own(1) == Own(2)
    assert repr(Own(1)) == "own"


def test_default_of_the_nearest_base_holds() -> None:
    @slotted
    class Local(Limit):
        limit: int = 7

    @slotted
    class Furthest(Local):
        offset: int = 0

    assert Furthest().limit == 7
    match Furthest(1, 2):
        case Furthest(limit, offset):
            assert (limit, offset) == (1, 2)


def test_subclass_keeps_its_own_init_when_it_calls_that_of_the_base() -> None:
    @slotted
    class Base:
        offset: int

    class Next(Base):
        def __init__(self, offset: int) -> None:
            Base.__init__(self, offset + 1)

    assert [Next(1).offset, Next(1).offset] == [2, 2]


def test_wrong_arguments_are_reported_with_the_name_of_the_class() -> None:
    made: Any = Limit
    for _ in range(2):  # with the first instance, which compiles, and later
        with pytest.raises(
            TypeError, match=r"^Limit\.__init__\(\) got an unexpected keyword argument 'limits'"
        ):
            made(limits=1)
