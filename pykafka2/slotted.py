"""`slotted`: `attrs.define` for internal classes, without the cost at import.

attrs generates and compiles the methods of a class when its module is imported. That takes 0.7 ms for each of
a hundred classes, and a program uses few of them. `slotted` compiles `__init__` for the first instance.

Public values and options stay attrs, for `attrs.evolve` and `attrs.asdict`. Stateless; any thread can create
the first instance, because compiling twice has the same result.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from reprlib import recursive_repr
from typing import Any, NoReturn, TypeVar, dataclass_transform, overload

C = TypeVar("C", bound=type)

_REQUIRED: Any = object()
_FIELDS = "__slotted_fields__"
_NOT_COPIED = ("__dict__", "__weakref__")  # the descriptors of the class without slots


class _Slot:
    """A field: its default, or the factory of its default."""

    __slots__ = ("default", "factory", "is_shown")

    def __init__(self, default: Any, factory: Callable[[], Any] | None, is_shown: bool) -> None:
        self.default = default
        self.factory = factory
        self.is_shown = is_shown


def slot(*, default: Any = _REQUIRED, factory: Callable[[], Any] | None = None, repr: bool = True) -> Any:
    """Declare a field with a default, a factory of defaults, or `repr=False` to leave it out of `repr`."""
    return _Slot(default, factory, repr)


@overload
def slotted(cls: C, /) -> C: ...


@overload
def slotted(*, eq: bool = True, frozen: bool = False) -> Callable[[C], C]: ...


@dataclass_transform(field_specifiers=(slot,))
def slotted(cls: C | None = None, /, *, eq: bool = True, frozen: bool = False) -> C | Callable[[C], C]:
    """Return the class with `__slots__`, `__init__` and `__repr__` for its annotated fields.

    Args:
        cls: the class. Its methods cannot call `super()` without arguments, as a second class is created.
        eq: whether instances of the class with equal fields are equal.
        frozen: whether fields are read-only, and instances hashable if their fields are.
    """
    if cls is None:
        return lambda decorated: _with_slots(decorated, eq, frozen)
    return _with_slots(cls, eq, frozen)


def _with_slots(cls: C, eq: bool, frozen: bool) -> C:
    own = list(cls.__annotations__)
    body = {
        name: value for name, value in cls.__dict__.items() if name not in _NOT_COPIED and name not in own
    }
    fields: dict[str, _Slot] = {}
    for base in reversed(cls.__mro__[1:]):
        fields.update(base.__dict__.get(_FIELDS, ()))
    for name in own:
        declared = cls.__dict__.get(name, _REQUIRED)
        fields[name] = declared if type(declared) is _Slot else _Slot(declared, None, True)
    has_weakref = any("__weakref__" in base.__dict__ for base in cls.__mro__[1:])
    body["__slots__"] = (*own, *(() if has_weakref else ("__weakref__",)))
    body["__match_args__"] = tuple(fields)
    body["__qualname__"] = cls.__qualname__
    body[_FIELDS] = fields
    body.setdefault("__repr__", _repr)
    if eq and "__eq__" not in body:
        body["__eq__"] = _eq
        body["__hash__"] = _hash if frozen else None
    if frozen:
        body["__setattr__"] = body["__delattr__"] = _refuse
        body.setdefault("__setstate__", _set_state)
    made = type(cls)(cls.__name__, cls.__bases__, body)
    setattr(made, "__init__", _init_at_first_use(made, frozen))  # noqa: B010 - mypy refuses the assignment
    return made


def _init_at_first_use(cls: Any, frozen: bool) -> Callable[..., None]:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        compiled = _compiled_init(cls, frozen)
        cls.__init__ = compiled
        compiled(self, *args, **kwargs)

    return __init__


def _compiled_init(cls: Any, frozen: bool) -> Callable[..., None]:
    names: dict[str, Any] = {}
    parameters, lines = ["self"], []
    for name, field in getattr(cls, _FIELDS).items():
        parameter = name.lstrip("_")  # as attrs does
        value = parameter
        if field.factory is not None:
            names[f"_new_{name}"], names["_missing"] = field.factory, _REQUIRED
            value = f"_new_{name}() if {parameter} is _missing else {parameter}"
            parameters.append(f"{parameter}=_missing")
        elif field.default is not _REQUIRED:
            names[f"_default_{name}"] = field.default
            parameters.append(f"{parameter}=_default_{name}")
        else:
            parameters.append(parameter)
        if frozen:
            names[f"_set_{name}"] = getattr(cls, name).__set__
            lines.append(f"_set_{name}(self, {value})")
        else:
            lines.append(f"self.{name} = {value}")
    body = "\n    ".join(lines or ["pass"])
    source = f"def __init__({', '.join(parameters)}):\n    {body}\n"
    exec(compile(source, f"<slotted {cls.__module__}.{cls.__qualname__}>", "exec"), names)  # noqa: S102
    init: Callable[..., None] = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__module__ = cls.__module__
    return init


@recursive_repr("...")
def _repr(self: Any) -> str:
    shown = (name for name, field in getattr(self, _FIELDS).items() if field.is_shown)
    name = type(self).__qualname__.rsplit(">.", 1)[-1]
    return f"{name}({', '.join(f'{field}={getattr(self, field)!r}' for field in shown)})"


def _values(cls: Any) -> Callable[[Any], Any]:
    """Create the getter of a class's fields, and store it in the class."""
    fields = tuple(getattr(cls, _FIELDS))
    getter: Any = operator.attrgetter(*fields) if fields else _no_values
    cls.__slotted_values__ = getter
    return getter  # type: ignore[no-any-return]


def _no_values(_: object) -> tuple[()]:
    return ()


def _eq(self: Any, other: object) -> Any:
    cls = type(self)
    if type(other) is not cls:
        return NotImplemented
    values = cls.__dict__.get("__slotted_values__") or _values(cls)
    return values(self) == values(other)


def _hash(self: Any) -> int:
    cls = type(self)
    values = cls.__dict__.get("__slotted_values__") or _values(cls)
    return hash((cls, values(self)))


def _set_state(self: object, state: tuple[None, dict[str, Any]]) -> None:
    """Set the fields of a copied or unpickled instance."""
    for name, value in state[1].items():
        object.__setattr__(self, name, value)


def _refuse(self: object, *_: object) -> NoReturn:
    raise AttributeError(f"{type(self).__name__} is frozen: its fields cannot be changed")
