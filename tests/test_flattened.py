"""Errors, help and pickles name the public class of a call, never a mixin that its source is divided into."""

from __future__ import annotations

import inspect
import pickle
import pydoc
import re
from collections.abc import Callable
from functools import wraps
from typing import Any, Generic, TypeVar

import pytest

import pykafka2
from pykafka2 import aio, testing
from pykafka2.flattened import flattened
from pykafka2.testing.remote.proxies import RemoteControls
from tests.docs.test_reference import CLASSES, FIRST, members_of

CLIENTS = [
    pykafka2.KafkaProducer,
    pykafka2.KafkaConsumer,
    pykafka2.KafkaAdminClient,
    pykafka2.Delivery,
    aio.KafkaProducer,
    aio.KafkaConsumer,
    aio.KafkaAdminClient,
    testing.Controls,
]
T = TypeVar("T")


# ---------------------------------------------------------------------------------------- public classes


@pytest.mark.parametrize("path", sorted(FIRST.values()))
def test_type_error_of_a_public_call_names_its_class(path: str) -> None:
    cls = CLASSES[path]
    names = {one.__name__ for one in cls.__mro__ if one in FIRST}
    for name in dict(members_of(cls)):
        call = getattr(cls, name)
        if not inspect.isfunction(call):
            continue
        with pytest.raises(TypeError) as raised:
            call()  # without self
        named = re.match(r"(\w+)\.(\w+)\(\) missing", str(raised.value))
        assert named is not None, raised.value
        assert named[1] in names
        assert named[2] == name


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: f"{client.__module__}.{client.__name__}")
def test_help_and_pickles_of_a_client_name_no_mixin(client: type[Any]) -> None:
    shown = pydoc.render_doc(client, renderer=pydoc.plaintext)
    assert " inherited from " not in shown.replace(" inherited from typing.Generic", "")
    assert {base.__module__.partition(".")[0] for base in client.__mro__[1:]} <= {"builtins", "typing"}
    for name in dict(members_of(client)):
        call = getattr(client, name)
        if inspect.isfunction(call):
            assert repr(call).startswith(f"<function {client.__name__}.{name} at ")
            assert pickle.loads(pickle.dumps(call)) is call
            assert next(iter(inspect.signature(call).parameters)) == "self"


@pytest.mark.parametrize("client", [aio.KafkaProducer, aio.KafkaConsumer, pykafka2.KafkaProducer])
def test_generic_client_can_be_subscripted_and_subclassed(client: Any) -> None:
    class Mine(client[str, bytes]):  # type: ignore[misc]
        pass

    assert Mine.__mro__[1] is client
    assert Mine.health.__qualname__ == f"{client.__name__}.health"


def test_signature_of_a_class_has_the_arguments_that_it_takes() -> None:
    assert list(inspect.signature(pykafka2.TopicPartition).parameters) == ["topic", "partition"]
    assert list(inspect.signature(testing.KafkaCluster).parameters)[:2] == ["brokers", "topics"]
    assert "process" in inspect.signature(testing.TlsKafkaCluster).parameters


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({}, "missing a required argument: 'broker_id'"), ({"broker": 1}, "missing a required argument")],
)
def test_wrong_arguments_of_a_control_in_another_process_name_the_call(
    arguments: dict[str, Any], words: str
) -> None:
    controls: Any = RemoteControls(None)  # type: ignore[arg-type] # the error precedes the request
    with pytest.raises(TypeError, match=rf"^Controls\.pause_broker\(\): {words}"):
        controls.pause_broker(**arguments)


# ---------------------------------------------------------------------------------------- the decorator


def counted(method: Callable[..., int]) -> Callable[..., int]:
    @wraps(method)
    def called(self: Any, *args: Any) -> int:
        return method(self, *args) + 1

    return called


def mixin(cls: T) -> T:
    cls.__module__ = "pykafka2.part"  # type: ignore[attr-defined]
    return cls


@mixin
class Reading(Generic[T]):
    """A mixin."""

    __slots__ = ("place",)
    limit = 5

    @counted
    def read(self, number: int) -> int:
        return number

    def close(self) -> str:
        return "mixin"


@flattened
class Reader(Reading[T], Generic[T]):
    """Reads."""

    __slots__ = ("name",)

    def close(self) -> str:
        return "reader"


@flattened
class Writer(Reading[int]):
    """Writes."""

    __slots__ = ()


def test_two_classes_with_one_mixin_have_methods_of_their_own_names() -> None:
    for cls in (Reader, Writer):
        with pytest.raises(TypeError, match=rf"^{cls.__name__}\.read\(\) takes 2 positional arguments but 3"):
            cls().read(1, 2)
        with pytest.raises(TypeError, match=rf"^{cls.__name__}\.read\(\) missing 1 required .* 'number'"):
            cls().read()
        assert cls().read(1) == 2
        assert cls.read.__code__.co_qualname == f"{cls.__name__}.read"
    assert Reading.read.__qualname__ == "Reading.read"


def test_members_and_slots_of_the_class_and_its_mixins_remain() -> None:
    reader: Reader[int] = Reader[int]()
    reader.name, reader.place = "a", 1
    assert (reader.close(), reader.limit, Writer().close()) == ("reader", 5, "mixin")
    assert not hasattr(reader, "__dict__")
    assert (Reader.__doc__, Reader.__module__, Reader.__bases__) == ("Reads.", __name__, (Generic,))
    assert Reader.__parameters__ == (T,)  # type: ignore[attr-defined]


def test_member_of_the_first_of_two_mixins_counts() -> None:
    @mixin
    class Opening:
        def close(self) -> str:
            return "first"

    class Both(Opening, Reading[int]):
        pass

    assert flattened(Both)().close() == Both().close() == "first"


def test_method_that_calls_super_without_arguments_is_rejected() -> None:
    @mixin
    class Closing:
        def close(self) -> None:
            super().__init__()

    class Client(Closing):
        pass

    with pytest.raises(TypeError, match=r"Closing\.close\(\) calls super\(\)|Client\.close\(\) calls super"):
        flattened(Client)
