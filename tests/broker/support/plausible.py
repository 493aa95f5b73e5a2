"""Messages whose values may mean something: a few right ones among odd ones, so that requests get far."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from pykafka2.protocol.declared import resolved_fields
from pykafka2.protocol.fields import Field
from pykafka2.protocol.struct import Struct

# Values among which the right ones are, so that requests get past the first check.
WORDS = (
    "t u a.b a_b x 0 1 7 5 -1 root INFO compact retention.ms cleanup.policy log.retention.ms num.partitions "
    "consumer.session.timeout.ms interval.ms transaction.version __cluster_metadata"
)
NAMES = st.sampled_from([*WORDS.split(), "", "a b", "\0", "9" * 30])
SMALL = st.sampled_from([-(2**15), -2, -1, 0, 1, 2, 3, 4, 8, 16, 32, 99, 2**15 - 1])
PLAUSIBLE: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": st.sampled_from([-1, 0, 1, 2, 3, 4, 8, 16, 32, 99]),
    "int16": SMALL,
    "int32": SMALL | st.sampled_from([-(2**31), 2**31 - 1]),
    "uint16": st.sampled_from([0, 9092, 2**16 - 1]),
    "int64": SMALL | st.sampled_from([-(2**63), 2**31, 2**63 - 1]),
    "float64": st.sampled_from([-1.0, 0.0, 1e300]),
    "bytes": st.sampled_from([b"", b"\0", b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff", b"\xff" * 9]),
    "uuid": st.sampled_from([bytes(16), b"\1" * 16]),
    "string": NAMES,
}


def plausible(cls: type[Struct], version: int) -> st.SearchStrategy[Any]:
    """A message whose values may mean something."""
    fields = {
        one.name: values(one, version)
        for one in resolved_fields(cls)
        if version in one.versions or one.required
    }
    return st.builds(cls, **fields)


def values(one: Field, version: int) -> st.SearchStrategy[Any]:
    value = PLAUSIBLE[one.kind] if one.struct is None else plausible(one.struct, version)
    if one.array:
        value = st.lists(value, max_size=3)
    if version in one.nullable:
        value = st.none() | value
    return value
