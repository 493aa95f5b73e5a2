"""How the API reference differs from the source: an extension of Griffe, which reads it for mkdocstrings.

A value (attrs, NamedTuple) has the signature of its constructor, an enum the list of its members. Parameters
that exist for an error message only are left out. Examples in docstrings are coloured, and the names of calls
and classes are links, and so are the pages that docstrings name by their files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from griffe import (
    AliasResolutionError,
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
    ExprName,
    Extension,
    Function,
    Module,
    Object,
    Parameter,
    ParameterKind,
    Parameters,
)
from markupsafe import Markup

DOCS = Path(__file__).parent
PACKAGES = ("", "admin", "aio", "testing", "testing.simulation", "serializers")
IN_SIGNATURES = (
    "aio.batch_builder.BatchBuilder",
    "broker.observed.history.Criteria",
    "driver.completion.Completion",
    "testing.access.ConnectionOptions",
    "testing.controls.access.Resource",
    "testing.controls.rules.Match",
    "testing.controls.rules.Matching",
    "types.TopicPartitionReplica",
)
"""Classes that no package exports."""
VALUE = re.compile(r"(attrs\.|)(define|frozen|slotted)\b")
LITERAL = re.compile(r"[-\d'\"]|float\(")
ENUMS = {"IntEnum", "StrEnum", "Enum"}
CODE_SPAN = re.compile(r"(?<!`)`((?:\w+\.)*\w+)(\(\))?`(?!`)")
PAGE = re.compile(r"\bdocs/([\w/-]+)\.md\b")
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
        paths = {name: f"#{name.lower()}" for name in pkg["errors"].classes}  # anchors of the page of errors
        for path in reversed(public):  # the first one of a name stays
            name = path.rpartition(".")[2]
            if not name.isupper():
                paths[name] = path
        for path, member in public.items():
            if isinstance(member, Class):
                _link(member, path, paths)
            elif isinstance(member, Function):
                _improve(member, paths)
        for member in public.values():
            if isinstance(member, Class):
                _show_fields(member)

    def on_object(self, *, obj: Object, **_: Any) -> None:
        obj.labels -= HIDDEN_LABELS

    def on_function(self, *, func: Function, **_: Any) -> None:
        for one in (func, *(func.overloads or ())):
            _show_parameters(one)


def _public(pkg: Module) -> Iterator[tuple[str, Object]]:
    """Yield the public names with their objects, and the classes that only their signatures name."""
    for package in PACKAGES:
        module = pkg[package] if package else pkg
        own = [one.name for one in module.classes.values() if not one.is_alias and one.name[0] != "_"]
        for name in map(str, module.exports or own):
            member = module.members[name]
            yield f"{module.path}.{name}", member.final_target if member.is_alias else member
    for path in IN_SIGNATURES:
        yield f"{pkg.path}.{path}", pkg[path]


def _show_parameters(func: Function) -> None:
    """Leave out what exists for an error message, and show the values of defaults."""
    # Only what is annotated as None; without an annotation it is None itself.
    shown = [one for one in func.parameters if one.annotation is None or str(one.annotation) != "None"]
    for parameter in shown:
        if parameter.kind is ParameterKind.var_keyword and "Unpack" in str(parameter.annotation):
            parameter.annotation = None
        parameter.default = _value(parameter.default)
    func.parameters = Parameters(*shown)


def _value(default: str | Expr | None) -> str | Expr | None:
    """Return the number or string that a constant of this package stands for, or the default itself."""
    if not isinstance(default, ExprName) or not default.name.isupper():
        return default
    try:
        constant = default.parent.modules_collection[default.canonical_path]
    except (AliasResolutionError, AttributeError, KeyError):
        return default
    found = getattr(constant, "value", None)
    return str(found) if LITERAL.match(str(found)) else default


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
        return _reference(found, f"<code>{span[1]}{span[2] or ''}</code>")

    text = obj.docstring.value
    section = SECTION.search(text)
    end = section.start() if section else len(text)
    described = EXAMPLE.sub(_fenced, text[:end] + ("" if section else "\n"))
    obj.docstring.value = PAGE.sub(_page, CODE_SPAN.sub(linked, described + text[end:])).rstrip("\n")
    for one in obj.docstring.parsed:
        if isinstance(one, DocstringSectionParameters):
            for parameter in one.value:
                parameter.annotation = parameter.value = None  # the signature has them
        elif isinstance(one, DocstringSectionRaises):
            for error in one.value:
                if isinstance(error.annotation, Markup):
                    continue  # of a class with two paths
                classes = str(error.annotation).strip("()").split(", ")
                linked_classes = (_reference(names[one], one) if one in names else one for one in classes)
                error.annotation = Markup(", ").join(linked_classes)


def _reference(identifier: str, text: str) -> str:
    if identifier.startswith("#"):
        return Markup(f'<a href="../errors/{identifier}">{text}</a>')  # noqa: S704 - our own names
    return Markup(f'<autoref identifier="{identifier}" optional>{text}</autoref>')  # noqa: S704 - our own names


def _page(named: re.Match[str]) -> str:
    """Return a link to a page of the site with its title."""
    title = (DOCS / f"{named[1]}.md").read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
    return f'<a href="../../{named[1]}/">{title}</a>'


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
        fields = [one for one in _fields(cls) if one.annotation is not None]
        if any(one.docstring is not None for one in fields):
            _list(cls, fields)
        else:
            _add_constructor(cls, fields, is_keyword=True)
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
        value = str(_value(field.value))
        if field.annotation is None and LITERAL.match(value):
            description = f"`{value}`. {description}".rstrip()
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
        Parameter(field.name, annotation=field.annotation, kind=kind, default=_value(_default(field.value)))
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
