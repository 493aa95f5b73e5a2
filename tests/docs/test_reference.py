"""Each public name and member is on one page of the API reference; the gate's lint stage builds the site."""

from __future__ import annotations

import inspect
import re
import runpy
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import yaml

import pykafka2
from pykafka2 import admin, aio, serializers, testing
from pykafka2.other_clients import ForeignCall
from pykafka2.testing import simulation

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PACKAGES = (pykafka2, admin, aio, testing, simulation, serializers)
DIRECTIVE = re.compile(r"^::: (\S+)\n((?:    .*\n)*)", re.MULTILINE)
AWAITED = re.compile(r"\[`(\w+)`\]\[pykafka2\.KafkaAdminClient\.\1\]")

OF_OTHER_PAGES = {"KafkaError", "ToBytes"}
"""Public names on the page of errors, and the type of a plain function."""

RETURNED = "pykafka2.aio.batch_builder.BatchBuilder"
"""A class that no package exports, on the page of the call that returns it."""

INTERNAL = {
    "Actor": {
        "begin_wait",
        "can_be_dropped",
        "describe_wait",
        "end_wait",
        "fire",
        "run",
        "unclaimed_failure",
    },
    "Delivery": {"call_when_done", "get_loop", "outcome", "place", "remove_done_callback"},
    "Entry": {"drop_response", "sent_by"},
    "FaultRule": {"covers", "is_due", "matches", "names_partitions", "resets"},
    "History": {"ended", "left", "received"},
    "KafkaCluster": {"faults", "links", "loops", "running", "runtime"},
    "Listener": {"advertised_of", "host_of", "uses_sasl", "uses_tls"},
    "Outcomes": {"checked", "of_all"},
    "Problems": {"note"},
    "Scan": {"consumer_options", "restricted", "table_of", "with_fields"},
    "Topic": {"described"},
}
"""Members that only pykafka2 itself uses, by class."""


class Shown(NamedTuple):
    """A directive of a page, and the members that it is limited to: True for all, False for none."""

    page: str
    path: str
    members: Any


def shown_names() -> list[Shown]:
    found = []
    for page in sorted(REFERENCE.glob("*.md")):
        for path, options in DIRECTIVE.findall(page.read_text(encoding="utf-8")):
            settings = yaml.safe_load(options)["options"] if options else {}
            found.append(Shown(page.name, path, settings.get("members", True)))
    return found


def public_names(module: ModuleType) -> list[str]:
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [name for name, one in vars(module).items() if _is_of(module, name, one)]


def _is_of(module: ModuleType, name: str, one: object) -> bool:
    return isinstance(one, type) and one.__module__ == module.__name__ and not name.startswith("_")


SHOWN = shown_names()
PUBLIC = {f"{one.__name__}.{name}": getattr(one, name) for one in PACKAGES for name in public_names(one)}
CLASSES = {path: one for path, one in PUBLIC.items() if isinstance(one, type)}
FIRST = {one: path for path, one in reversed(CLASSES.items()) if one.__name__ not in OF_OTHER_PAGES}
"""The public classes, each with one of its paths."""


def members_of(cls: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class, without those of Python and of its public bases."""
    for name in dir(cls):
        homes = [base for base in cls.__mro__ if name in vars(base)]
        if name.startswith("_") or not homes or not homes[0].__module__.startswith("pykafka2"):
            continue
        if any(base in CLASSES.values() for base in homes if base is not cls):
            continue
        member = vars(homes[0])[name]
        function = getattr(member, "fget", getattr(member, "__func__", member))
        if inspect.isfunction(function) and not isinstance(member, ForeignCall):
            yield name, function


def test_each_public_name_is_on_one_page() -> None:
    objects = Counter(id(PUBLIC[one.path]) for one in SHOWN if one.path in PUBLIC)
    wrong = {path: objects[id(one)] for path, one in PUBLIC.items() if objects[id(one)] != 1}
    assert {path for path in wrong if path.rpartition(".")[2] not in OF_OTHER_PAGES} == set()


def test_reference_has_no_other_names() -> None:
    known = {*PUBLIC, RETURNED, *(one.path for one in SHOWN if one.page == "types.md")}
    others = {
        one.path
        for one in SHOWN
        if one.path not in known
        and one.path.rpartition(".")[0] not in CLASSES
        and not one.path.startswith("pykafka2.errors.")
    }
    assert others == set()


@pytest.mark.parametrize("path", sorted(FIRST.values()))
def test_each_public_member_is_shown_once(path: str) -> None:
    cls = CLASSES[path]
    paths = {known for known, one in CLASSES.items() if one is cls}
    shown: list[str] = []
    for one in SHOWN:
        owner, _, name = one.path.rpartition(".")
        if owner in paths:
            shown.append(name)
        elif one.path in paths and one.members is True:
            shown += dict(members_of(cls))
        elif one.path in paths and one.members:
            shown += one.members
    if path == "pykafka2.aio.KafkaAdminClient":
        shown += AWAITED.findall((REFERENCE / "aio-admin-client.md").read_text(encoding="utf-8"))
    members = set(dict(members_of(cls))) - INTERNAL.get(cls.__name__, set())
    wrong = {name for name in members if shown.count(name) != 1}
    assert wrong == set(), f"give each one line, such as `::: {path}.NAME`, on the page of the class"
    unknown = {name for name in shown if name not in members and name not in _attributes(cls)}
    assert unknown == set()


def _attributes(cls: type) -> set[str]:
    """Attributes that are no methods: declared ones, and those that `__init__` sets and documents."""
    declared = {name for base in cls.__mro__ for name in vars(base).get("__annotations__", ())}
    source = inspect.getsource(cls)
    return declared | set(re.findall(r'^        self\.(\w+)\b.*\n        """', source, re.MULTILINE))


@pytest.mark.parametrize("path", sorted(FIRST.values()))
def test_each_shown_member_has_a_docstring(path: str) -> None:
    cls = CLASSES[path]
    assert cls.__doc__
    internal = INTERNAL.get(cls.__name__, set())
    # Members of an interface are documented there.
    without = {name for name, one in members_of(cls) if name not in internal and not inspect.getdoc(one)}
    assert without == set()


@pytest.mark.parametrize("path", sorted(FIRST.values()))
def test_signatures_have_no_private_names(path: str) -> None:
    cls = CLASSES[path]
    for name, function in [*members_of(cls), ("__init__", cls.__init__)]:
        if name in INTERNAL.get(cls.__name__, ()) or not inspect.isfunction(function):
            continue
        if name == "__init__" and function.__module__ != cls.__module__:
            continue
        signature = inspect.signature(function)
        shown = [*signature.parameters, *(str(one.annotation) for one in signature.parameters.values())]
        shown.append(str(signature.return_annotation))
        private = [one for one in shown if re.search(r"\b_[a-zA-Z]", one.replace("inspect._empty", ""))]
        assert private == [], name


CODE = '''
from enum import IntEnum
from typing import NamedTuple

NONE = -1

class Kind(IntEnum):
    """Kinds."""
    FIRST = 1
    """The first kind."""

class Place(NamedTuple):
    """A place; see `Kind`."""
    topic: str
    offset: int = NONE

def send(topic: str, size, *, limit: int = NONE, callback: None = None, **options: Unpack[Config]) -> Place:
    """Send.

        send("orders", 5)

    Args:
        topic: a name, as in `Place`.

    Raises:
        WrongName, WrongSize: an argument is wrong.
    """
'''


def test_reference_leaves_out_parameters_for_error_messages_and_links_names() -> None:
    griffe = pytest.importorskip("griffe")
    extension = runpy.run_path(str(REFERENCE.parent / "reference_extension.py"))
    collection = griffe.ModulesCollection()
    module = griffe.visit(
        "m",
        filepath=Path("m.py"),
        code=CODE,
        docstring_parser=griffe.Parser.google,
        modules_collection=collection,
    )
    collection["m"] = module
    kind, place, send = (module[name] for name in ("Kind", "Place", "send"))

    extension["Reference"]().on_function(func=send)
    assert send.signature() == "send(topic: str, size, *, limit: int = -1, **options) -> Place"

    for _ in range(2):  # a class can have two paths
        extension["_improve"](send, {"Place": "m.Place", "WrongName": "#wrongname"})
    text, arguments, errors = send.docstring.parsed
    assert '```python\nsend("orders", 5)\n```' in text.value
    assert (
        '<autoref identifier="m.Place" optional><code>Place</code></autoref>'
        in arguments.value[0].description
    )
    assert arguments.value[0].annotation is None
    linked = '<a href="../errors/#wrongname">WrongName</a>'
    assert errors.value[0].annotation.__html__() == f"{linked}, WrongSize"

    extension["_show_fields"](kind)
    assert kind.docstring.parsed[-1].value[0].description == "`1`. The first kind."
    extension["_show_fields"](place)
    assert place["__init__"].signature() == "__init__(topic: str, offset: int = -1) -> None"
