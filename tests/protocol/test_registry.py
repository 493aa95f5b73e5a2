"""The table of APIs agrees with the classes, and costs no imports of messages."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pykafka2.errors import UnsupportedVersion
from pykafka2.protocol.describe import describe, snake_case
from pykafka2.protocol.registry import (
    API_KEYS,
    DATA_MODULES,
    ApiKey,
    all_messages,
    name_of,
    request_class,
    response_class,
)
from pykafka2.protocol.struct import RecordKey, RecordValue

KEYS = [
    *range(4),
    *range(8, 52),
    *range(55, 59),
    *range(60, 70),
    *range(71, 82),
    *range(83, 88),
    90,
    91,
    92,
    94,
]


def test_api_keys_are_the_listed_ones_in_order() -> None:
    assert list(API_KEYS) == KEYS


@pytest.mark.parametrize("api_key", KEYS)
def test_table_of_apis_matches_the_classes(api_key: int) -> None:
    info = API_KEYS[api_key]
    request, response = request_class(api_key), response_class(api_key)
    assert (info.name + "Request", info.name + "Response") == (request.NAME, response.NAME)
    assert request.RESPONSE is response
    assert request.API_KEY == response.API_KEY == info.key == api_key
    for cls in (request, response):
        assert cls.__module__.rpartition(".")[2] == info.module
        assert (info.min_version, info.max_version) == (cls.MIN_VERSION, cls.MAX_VERSION)
        for version in range(cls.MIN_VERSION, cls.LAST_VERSION + 2):
            assert cls.is_flexible(version) == info.is_flexible(version)
    assert getattr(ApiKey, snake_case(info.name).upper()) == api_key


def test_names_and_refusals() -> None:
    assert name_of(1) == "Fetch"
    assert name_of(4) == "API 4"
    with pytest.raises(UnsupportedVersion):
        request_class(4)
    with pytest.raises(UnsupportedVersion):
        response_class(-1)


def test_keys_and_values_of_records_come_in_pairs_of_one_kind() -> None:
    keys = {cls.NAME: cls for cls in all_messages() if issubclass(cls, RecordKey)}
    values = {cls.NAME: cls for cls in all_messages() if issubclass(cls, RecordValue)}
    assert len(keys) == 19
    for name, key in keys.items():
        assert key.RECORD_KIND == values[name.removesuffix("Key") + "Value"].RECORD_KIND >= 0
        assert key.__module__ == values[name.removesuffix("Key") + "Value"].__module__


def test_no_name_of_a_message_is_used_twice() -> None:
    names = [cls.NAME for cls in all_messages()]
    assert len(names) == len(set(names)) == 2 * len(KEYS) + sum(map(len, DATA_MODULES.values()))


def test_descriptions_follow_kafkas_schemas() -> None:
    fetch = describe(request_class(ApiKey.FETCH))
    assert fetch["valid_versions"] == (0, 18)
    assert fetch["flexible_versions"] == (12, 18)
    fields = {one["name"]: one for one in fetch["fields"]}
    assert fields["replica_id"]["versions"] == (0, 14)
    assert fields["replica_state"]["tagged_versions"] == (15, 18)
    assert fields["topics"]["type"] == "[]struct"
    assert fields["topics"]["fields"][0] == {
        "name": "topic",
        "type": "string",
        "versions": (0, 12),
        "nullable_versions": None,
        "tagged_versions": None,
        "tag": None,
        "default": "",
        "ignorable": True,
        "flexible": True,
        "secret": False,
        "fields": [],
    }


def test_the_table_alone_loads_no_messages() -> None:
    program = (
        "import sys, pykafka2.protocol.registry as registry;"
        "assert registry.name_of(0) == 'Produce';"
        "print([name for name in sys.modules if name.startswith('pykafka2.protocol.messages.')],"
        " registry.request_class(0).NAME,"
        " [name for name in sys.modules if name.startswith('pykafka2.protocol.messages.')])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown == "[] ProduceRequest ['pykafka2.protocol.messages.produce']\n"
