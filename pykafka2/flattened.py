"""`flattened`: a public class whose calls are written in several files, without its mixins at run time.

Mixins only divide the source. Python takes the names that it shows in TypeErrors, `help()`, pickles and
warnings of a forgotten `await` from the class that defines a method. `flattened` makes all methods the public
class's own, under its name. It runs once, when the class is imported.
"""

from __future__ import annotations

from functools import update_wrapper
from inspect import isfunction
from types import CellType, FunctionType, MemberDescriptorType
from typing import Any, Generic, TypeVar

C = TypeVar("C", bound=type)
T = TypeVar("T")

_PACKAGE = f"{__name__.partition('.')[0]}."


class _Empty(Generic[T]):
    """A class with nothing but the attributes that every class has."""

    nothing: None


_OF_EVERY_CLASS = frozenset({*vars(_Empty), "__init_subclass__", "__slots__"})
_OF_THE_FIRST_CLASS = ("__dict__", "__weakref__", "__orig_bases__")


def flattened(cls: C) -> C:
    """Return the class with the members of its bases in this package, and without these bases.

    The methods of the bases are copied, so two classes can have the same mixin. No method can call `super()`
    without arguments, as a second class is created.
    """
    mixins = [base for base in cls.__mro__[1:] if base.__module__.startswith(_PACKAGE)]
    body: dict[str, Any] = {}
    for mixin in reversed(mixins):
        members = vars(mixin).items()
        body.update({name: member for name, member in members if name not in _OF_EVERY_CLASS})
    body = {name: own_copy(member, cls) if isfunction(member) else member for name, member in body.items()}
    body.update({name: member for name, member in vars(cls).items() if name not in _OF_THE_FIRST_CLASS})
    body = {name: member for name, member in body.items() if type(member) is not MemberDescriptorType}
    for member in body.values():
        if isfunction(member) and "__class__" in member.__code__.co_freevars:
            raise TypeError(f"{member.__qualname__}() calls super() in a class that is created twice")
    if "__slots__" in body:
        body["__slots__"] = tuple(slot for base in (cls, *mixins) for slot in vars(base)["__slots__"])
    bases = tuple(base for base in cls.__mro__[1:-1] if base not in mixins and base is not Generic)
    parameters = getattr(cls, "__parameters__", ())
    if parameters:
        generic: Any = Generic
        bases = (*bases, Generic)
        body["__orig_bases__"] = (*bases[:-1], generic[parameters])
    made: C = type(cls)(cls.__name__, bases, body)
    return made


def own_copy(method: Any, owner: type) -> Any:
    """Return a copy of a method, and of the function that it wraps, with the names of another class."""
    inner = getattr(method, "__wrapped__", None)
    closure = method.__closure__
    if isfunction(inner):
        copied = own_copy(inner, owner)
        closure = tuple(CellType(copied) if cell.cell_contents is inner else cell for cell in closure)
    qualname = f"{owner.__qualname__}.{method.__name__}"
    code = method.__code__.replace(co_qualname=qualname)
    made: Any = FunctionType(code, method.__globals__, method.__name__, method.__defaults__, closure)
    made.__kwdefaults__ = method.__kwdefaults__
    update_wrapper(made, method)
    made.__qualname__ = qualname
    made.__module__ = owner.__module__
    if isfunction(inner):
        made.__wrapped__ = copied
    else:
        del made.__wrapped__
    return made
