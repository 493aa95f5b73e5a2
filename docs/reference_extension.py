"""How the API reference differs from the source: an extension of Griffe, which reads it for mkdocstrings.

A value (attrs, NamedTuple) has the signature of its constructor, an enum the list of its members. Parameters
that exist for an error message only are left out. Examples in docstrings are coloured, and the names of calls
and classes are links.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from griffe import (
    Attribute,
    Class,
    Docstring,
    DocstringAttribute,
    DocstringSectionAttributes,
    DocstringSectionKind,
    DocstringSectionParameters,
    DocstringSectionRaises,
    Expr,
    ExprCall,
    ExprKeyword,
    ExprTuple,
    Extension,
    Function,
    Module,
    Object,
    Parameter,
    ParameterKind,
    Parameters,
)

PACKAGES = ("", "admin", "aio", "testing", "testing.simulation")
VALUE = re.compile(r"(attrs\.|)(define|frozen|slotted)\b")
LITERAL = re.compile(r"[-\d'\"]")
ENUMS = {"IntEnum", "StrEnum", "Enum"}
CODE_SPAN = re.compile(r"(?<!`)`((?:\w+\.)*\w+)(\(\))?`(?!`)")
SECTION = re.compile(r"^(Args|Raises|Returns|Yields):$", re.MULTILINE)
EXAMPLE = re.compile(r"(?:(?<=\n\n)|(?<=\A))((?: {4}.*\n?|\n(?= {4}))+)")
HIDDEN_LABELS = {
    "abstractmethod",
    "class-attribute",
    "instance-attribute",
    "module-attribute",
    "property",
    "writable",
}


class Reference(Extension):
    """Prepares the public classes once the package is loaded."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        public = dict(_public(pkg))
        paths = {path.rpartition(".")[2]: path for path in reversed(public)}  # the first of a name stays
        for path, member in public.items():
            if isinstance(member, Class):
                _link(member, path, paths)
        for member in public.values():
            if isinstance(member, Class):
                _show_fields(member)

    def on_object(self, *, obj: Object, **_: Any) -> None:
        obj.labels -= HIDDEN_LABELS

    def on_function(self, *, func: Function, **_: Any) -> None:
        # Only what is annotated as None; without an annotation it is None itself.
        shown = [one for one in func.parameters if one.annotation is None or str(one.annotation) != "None"]
        for parameter in shown:
            if parameter.kind is ParameterKind.var_keyword and "Unpack" in str(parameter.annotation):
                parameter.annotation = None
        func.parameters = Parameters(*shown)


def _public(pkg: Module) -> Iterator[tuple[str, Object]]:
    """Yield the public names with their objects."""
    for package in PACKAGES:
        module = pkg[package] if package else pkg
        for name in map(str, module.exports or ()):
            member = module.members[name]
            yield f"{module.path}.{name}", member.final_target if member.is_alias else member


# --------------------------------------------------------------------------------------------- docstrings


def _link(cls: Class, path: str, paths: Mapping[str, str]) -> None:
    """Make links of the names in the docstrings of a class and its methods."""
    members = {name: f"{path}.{name}" for name in cls.all_members if not name.startswith("_")}
    _improve(cls, {**paths, **members})
    for member in cls.all_members.values():
        target = member.final_target if member.is_alias else member
        if not target.is_function and not target.is_attribute:
            continue
        own = {one.name for one in target.parameters} if target.is_function else {target.name}
        names = {name: found for name, found in members.items() if name not in own and name != target.name}
        _improve(target, {**paths, **names})


def _improve(obj: Object, names: Mapping[str, str]) -> None:
    if obj.docstring is None:
        return

    def linked(span: re.Match[str]) -> str:
        first, _, rest = span[1].removeprefix("pykafka2.").rpartition(".")
        if (first or rest) not in names:
            return span[0]
        found = f"{names[first]}.{rest}" if first else names[rest]  # such as KafkaConsumer.poll
        return f'<autoref identifier="{found}" optional><code>{span[1]}{span[2] or ""}</code></autoref>'

    text = obj.docstring.value
    section = SECTION.search(text)
    end = section.start() if section else len(text)
    described = EXAMPLE.sub(_fenced, text[:end] + ("" if section else "\n"))
    obj.docstring.value = CODE_SPAN.sub(linked, described + text[end:]).rstrip("\n")
    for one in obj.docstring.parsed:
        if isinstance(one, DocstringSectionParameters):
            for parameter in one.value:
                parameter.annotation = parameter.value = None  # the signature has them
        elif isinstance(one, DocstringSectionRaises):
            for error in one.value:
                if isinstance(error.annotation, ExprTuple):
                    error.annotation.implicit = True  # without parentheses


def _fenced(example: re.Match[str]) -> str:
    code = re.sub(r"^ {4}", "", example[1], flags=re.MULTILINE)
    return f"```python\n{code.rstrip()}\n```\n"


# --------------------------------------------------------------------------------------------- fields


def _show_fields(cls: Class) -> None:
    """Give a value its signature, and list the fields that have a docstring of their own."""
    family = [*reversed(cls.mro()), cls]
    bases = {str(base).rpartition(".")[2] for one in family for base in one.bases}
    decorators = [str(one.value) for one in cls.decorators]
    if bases & ENUMS:
        _list(cls, [one for one in _fields(cls) if one.annotation is None])
    elif "TypedDict" in bases:
        _list(cls, [one for one in _fields(cls) if one.annotation is not None])
    elif "NamedTuple" in bases or any(VALUE.match(one) for one in decorators):
        fields = {one.name: one for kind in family for one in _fields(kind) if one.annotation is not None}
        if "__init__" not in cls.members:
            _add_constructor(cls, list(fields.values()), any("kw_only=True" in one for one in decorators))
        _list(cls, [one for one in fields.values() if one.docstring is not None])


def _fields(cls: Class) -> list[Attribute]:
    attributes = (one for one in cls.members.values() if isinstance(one, Attribute))
    return [one for one in attributes if one.name[0] != "_" and "property" not in one.labels]


def _list(cls: Class, fields: list[Attribute]) -> None:
    listed = []
    for field in fields:
        description = field.docstring.value if field.docstring is not None else ""
        if field.annotation is None and LITERAL.match(str(field.value)):
            description = f"`{field.value}`. {description}".rstrip()
        listed.append(
            DocstringAttribute(name=field.name, annotation=field.annotation, description=description)
        )
        field.docstring = None  # or it would be shown again among the members
    if cls.docstring is None:
        cls.docstring = Docstring("", parent=cls)
    sections = cls.docstring.parsed
    if listed and all(one.kind is not DocstringSectionKind.attributes for one in sections):
        sections.append(DocstringSectionAttributes(listed))


def _add_constructor(cls: Class, fields: list[Attribute], is_keyword: bool) -> None:
    kind = ParameterKind.keyword_only if is_keyword else ParameterKind.positional_or_keyword
    parameters = [
        Parameter(field.name, annotation=field.annotation, kind=kind, default=_default(field.value))
        for field in fields
        if "init=False" not in str(field.value)
    ]
    this = Parameter("self", kind=ParameterKind.positional_or_keyword)
    made = Function("__init__", parent=cls, parameters=Parameters(this, *parameters), returns="None")
    cls.set_member("__init__", made)


def _default(value: str | Expr | None) -> str | Expr | None:
    if isinstance(value, ExprCall) and re.search(r"\b(field|Factory|slot)\(", str(value)):
        given = {one.name: one.value for one in value.arguments if isinstance(one, ExprKeyword)}
        has_factory = "factory" in given or "Factory(" in str(value)
        return given.get("default", "..." if has_factory else None)
    return value
