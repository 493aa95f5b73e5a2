"""murmur2 as in Kafka's Java client: 32 bits, little-endian, with Kafka's seed. Pure.

One key: its words are mixed together as one number with 64 bits per word, in which a product with murmur2's
constant has room, and then folded by a function that is generated for the length of the key. This takes a
third less time for a key of 36 bytes.

Many keys: one number with thousands of digits has a lane of 64 bits per key, so one multiplication serves
all keys of a length. For keys of 36 bytes this takes a fifth of the time from 64 keys on, and an eighth from
1000 on. murmur2_numpy.py does the same with numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from struct import Struct

SEED = 0x9747B28C
_MIX = 0x5BD1E995
_MASK = 0xFFFFFFFF

LANE_BITS = 64
LONGEST = 128
"""Longer keys are rare, and their words are mixed one by one."""
MASK_EVERY = 3
"""Words after which the fold cuts off the bits above the 32nd, which change none below."""


def murmur2(data: bytes) -> int:
    """Return the unsigned 32-bit hash. Takes 1 to 2.5 us for keys of 5 to 36 bytes."""
    return _BY_LENGTH[len(data)](data)


def positive_murmur2(data: bytes) -> int:
    """Return the hash that Java takes modulo the number of partitions."""
    return POSITIVE_BY_LENGTH[len(data)](data)


def positive(number: int) -> int:
    """Return the number without its sign bit, as Java's `toPositive` does."""
    return number & 0x7FFFFFFF


def murmur2_by_words(data: bytes) -> int:
    """Return the same hash as `murmur2`, word by word, for keys of any length."""
    length = len(data)
    words = length >> 2
    h = SEED ^ length
    for k in Struct(f"<{words}I").unpack_from(data):
        k = k * _MIX & _MASK
        h = (h * _MIX ^ (k ^ k >> 24) * _MIX) & _MASK
    if length & 3:
        h = ((h ^ int.from_bytes(data[words << 2 :], "little")) * _MIX) & _MASK
    h = ((h ^ h >> 13) * _MIX) & _MASK
    return h ^ h >> 15


class _ByLength(dict[int, Callable[[bytes], int]]):
    """The functions by key length. Each is generated for the first key of its length in 0.3 to 2 ms."""

    def __init__(self, by_words: Callable[[bytes], int], bits: int) -> None:
        super().__init__()
        self._by_words = by_words
        self._bits = bits

    def __missing__(self, length: int) -> Callable[[bytes], int]:
        if length > LONGEST:
            return self._by_words
        function = self[length] = _function(length, self._bits)
        return function


def _function(length: int, bits: int) -> Callable[[bytes], int]:
    words, rest = divmod(length, 4)
    lines = ["def murmur2_of_one_length(data):"]
    if length:
        lines.append("    number = from_bytes(data, 'little')")
    if words:
        lines += _mixing(words)
    # One expression, so that what each word makes of the hash is on the stack for the next.
    h = f"{SEED ^ length}"
    for word in range(words):
        is_cut = word % MASK_EVERY == MASK_EVERY - 1 or word == words - 1
        h = f"({h} * {_MIX} ^ k{word})"
        h = f"({h} & {_MASK})" if is_cut else h
    if rest:
        h = f"(({h} ^ number >> {32 * words}) * {_MIX} & {_MASK})"
    lines += [f"    h = {h}", f"    h = (h ^ h >> 13) * {_MIX} & {_MASK}"]
    lines.append(f"    return (h ^ h >> 15) & {bits}")
    names = {"from_bytes": int.from_bytes, "unpack": Struct("<" + "I4x" * words).unpack}
    exec("\n".join(lines), names)  # noqa: S102 (of nothing but the numbers above)
    function: Callable[[bytes], int] = names["murmur2_of_one_length"]  # type: ignore[assignment]
    return function


def _mixing(words: int) -> list[str]:
    """Return lines that compute k0, k1, ... from a number: lanes of even words, then of odd words."""
    even, odd = (words + 1) // 2, words // 2
    names = [f"k{word}" for word in (*range(0, words, 2), *range(1, words, 2))]
    of_even, of_odd = f"(number & {_in_lanes(_MASK, even)})", f"(number & {_in_lanes(_MASK, odd) << 32})"
    low_32, low_8 = _in_lanes(_MASK, words), _in_lanes(_MASK >> 24, words)
    return [
        f"    k = ({of_even} | {of_odd} << {LANE_BITS * even - 32}) * {_MIX}",
        # The mask removes bits that the shift takes from the lane above.
        f"    k = ((k & {low_32}) ^ (k >> 24 & {low_8})) * {_MIX}",
        f"    {', '.join(names)}, = unpack(k.to_bytes({LANE_BITS // 8 * words}, 'little'))",
    ]


def _in_lanes(number: int, count: int) -> int:
    return sum(number << LANE_BITS * lane for lane in range(count))


_BY_LENGTH = _ByLength(murmur2_by_words, _MASK)
POSITIVE_BY_LENGTH: Mapping[int, Callable[[bytes], int]]
POSITIVE_BY_LENGTH = _ByLength(lambda data: positive(murmur2_by_words(data)), _MASK >> 1)
"""`positive_murmur2` by key length; a caller with many keys saves a call for each."""


NO_KEY = -1
"""The result for a null key."""

LANE_BYTES = 8
MIN_LANES = 8
"""Fewer keys of the same length are faster one by one."""
MAX_LANES = 4096
"""More lanes would not fit into the processor's caches."""


def murmur2_column(keys: Sequence[bytes | None]) -> list[int]:
    """Return the unsigned 32-bit `murmur2` hash of each key; NO_KEY for a null."""
    try:
        lengths = {*map(len, keys)}  # type: ignore[arg-type]
    except TypeError:  # a null
        lengths = set()
    if len(lengths) == 1:
        return _of_one_length(keys, lengths.pop())  # type: ignore[arg-type]
    by_length: dict[int, list[int]] = {}
    hashes = [NO_KEY] * len(keys)
    for row, key in enumerate(keys):
        if key is not None:
            by_length.setdefault(len(key), []).append(row)
    for length, rows in by_length.items():
        own: list[bytes] = [keys[row] for row in rows]  # type: ignore[misc]
        for row, number in zip(rows, _of_one_length(own, length), strict=True):
            hashes[row] = number
    return hashes


def _of_one_length(keys: Sequence[bytes], length: int) -> list[int]:
    """Return the hashes of keys of that length."""
    if len(keys) < MIN_LANES:
        return [*map(murmur2, keys)]
    hashes: list[int] = []
    for first in range(0, len(keys), MAX_LANES):
        hashes += _side_by_side(keys[first : first + MAX_LANES], length)
    return hashes


def _side_by_side(keys: Sequence[bytes], length: int) -> list[int]:
    """Return the hashes of keys of that length, all in one number."""
    count = len(keys)
    low_32, low_19, low_17, low_8 = (_in_each_lane((1 << bits) - 1, count) for bits in (32, 19, 17, 8))
    h = _in_each_lane(SEED ^ length, count)
    words, rest = divmod(length, 4)
    pairs = _word_pairs(keys, length)
    for word in range(words):
        k = (pairs[word // 2] >> 32 * (word % 2) & low_32) * _MIX
        # The masks remove bits of the lane above.
        k = ((k ^ (k >> 24 & low_8)) & low_32) * _MIX
        h = (h * _MIX ^ k) & low_32
    if rest:
        h = (h ^ (pairs[words // 2] >> 32 * (words % 2) & low_32)) * _MIX & low_32
    h ^= h >> 13 & low_19
    h = h * _MIX & low_32
    h ^= h >> 15 & low_17
    return memoryview(h.to_bytes(LANE_BYTES * count, "little")).cast("Q").tolist()


def _word_pairs(keys: Sequence[bytes], length: int) -> list[int]:
    """Return one number for each eight bytes of a key, with a lane for each key.

    The last number is padded with zeros.
    """
    size = -(-length // LANE_BYTES)
    padding = bytes(LANE_BYTES * size - length)
    lanes = memoryview(padding.join([*keys, b""])).cast("Q")
    return [int.from_bytes(lanes[place::size].tobytes(), "little") for place in range(size)]


@lru_cache(maxsize=16)
def _in_each_lane(number: int, count: int) -> int:
    return int.from_bytes(number.to_bytes(LANE_BYTES, "little") * count, "little")
