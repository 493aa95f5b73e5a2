"""Opens the segments of a log directory, and repairs what a crash has left.

After a clean shutdown, and before the recovery point, a segment is as it was flushed: only its indexes are
checked, and rebuilt if they are missing or corrupt. Any other segment is read batch by batch: it ends before
the first batch that is incomplete or whose checksum is wrong, and its indexes are written again. Kafka's
LogLoader and LogSegment.recover.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final

from pykafka2.broker.log.disk.batch_file import PLACE, check_format
from pykafka2.broker.log.disk.index_files import OFFSET_ENTRY, TIME_ENTRY, SparseIndex
from pykafka2.broker.log.disk.segment_file import (
    CLEANED,
    LOG,
    OFFSET_INDEX,
    TIME_INDEX,
    TRANSACTION_INDEX,
    DiskSegment,
    file_name,
)
from pykafka2.broker.log.disk.volume import DELETED, Volume
from pykafka2.errors import BrokerError
from pykafka2.records.batch import (
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    MAX_OFFSET,
    NO_LEADER_EPOCH,
    NO_PRODUCER_ID,
    RecordBatch,
    crc32c,
)

logger = logging.getLogger(__name__)

SWAP: Final = ".swap"
LOST: Final = ".lost"
"""The ending of segments after offsets that are lost."""
OWN_TEMPORARY: Final = (
    ".snapshot.tmp",
    ".txnindex.tmp",
    "leader-epoch-checkpoint.tmp",
    "partition.metadata.tmp",
)
CHUNK_BYTES: Final = 4 << 20
DIGITS: Final = 20

OnBatch = Callable[[RecordBatch], object]


def open_segment(volume: Volume, directory: str, base_offset: int, suffix: str = "") -> DiskSegment:
    """Open a flushed segment. Raise `OSError`."""
    segment = DiskSegment(volume, directory, base_offset, suffix)
    segment.size_bytes = segment.flushed_bytes = segment.log.size()
    segment.transactions.open()
    if not (_opens_indexes(segment) and _reads_tail(segment)):
        logger.warning("Rebuilding the indexes of %s, which are missing or corrupt", segment.log.path)
        recover(segment)
    segment.first_at = None if segment.size_bytes else -1
    return segment


def _opens_indexes(segment: DiskSegment) -> bool:
    """Open both indexes. Return False if one is missing or corrupt."""
    try:
        segment.offsets = SparseIndex(segment.offsets.file, OFFSET_ENTRY, segment.offsets.file.size())
        segment.times = SparseIndex(segment.times.file, TIME_ENTRY, segment.times.file.size())
    except FileNotFoundError:
        return False
    last, latest = segment.offsets.last, segment.times.last
    if last is not None:
        offset, position = last
        if offset <= 0 or not 0 < position <= segment.size_bytes - HEADER_BYTES:
            return False
        base_offset, _, last_delta = PLACE.unpack(segment.log.read(position, PLACE.size))
        if base_offset + last_delta != segment.base_offset + offset:
            return False
    if latest is not None:
        timestamp, offset = latest
        if offset < 0 or timestamp < segment.times.entry(0)[0]:
            return False
        segment.latest = (timestamp, segment.base_offset + offset)
    return True


def _reads_tail(segment: DiskSegment) -> bool:
    """Read the headers behind the last index entry. Return False unless they end with the file."""
    last = segment.offsets.last
    position = 0 if last is None else last[1]
    try:
        end_offset, position, unindexed = segment.read_tail(position)
    except BrokerError:
        return False
    if position != segment.size_bytes or (segment.times.last and segment.latest[1] >= end_offset):
        return False
    segment.end_offset = max(end_offset, segment.base_offset)
    segment.set_unindexed(unindexed)
    return True


def recover(segment: DiskSegment, on_batch: OnBatch | None = None) -> int:
    """Read every batch, write the indexes again, and cut the file before the first invalid batch.

    Return the number of bytes that were cut off. `on_batch` is called with each valid batch that has a
    producer id or a leader epoch above those before it. Raise `OSError`.
    """
    files = segment.volume.files
    size = segment.log.size()
    for kind in (OFFSET_INDEX, TIME_INDEX):
        files.open(segment.path_of(kind), creates=True).close()
    segment.reset()
    segment.has_gaps = False
    indexes = (segment.offsets, segment.times)
    for index in indexes:
        index.hold()
    latest_epoch = NO_LEADER_EPOCH - 1  # so that the first batch is passed on, whatever its epoch
    for batch, header in _valid_batches(segment, size):
        base_offset, _, epoch, _, _, _, last_delta, _, timestamp, producer_id, _, _, count = header
        if epoch > latest_epoch or producer_id > NO_PRODUCER_ID:
            latest_epoch = max(epoch, latest_epoch)
            if on_batch is not None:
                on_batch(RecordBatch(batch))
        if base_offset > segment.end_offset or count <= last_delta:
            segment.has_gaps = True
        segment.count_batch(len(batch), base_offset + last_delta, timestamp)
    segment.finish()
    for index in indexes:
        index.write_held()
    lost = size - segment.size_bytes
    if lost:
        check_format(segment.volume, segment.log, segment.size_bytes)
        logger.warning("Removed %d bytes without a valid batch from %s", lost, segment.log.path)
        segment.log.truncate(segment.size_bytes)
    segment.flushed_bytes = min(segment.flushed_bytes, segment.size_bytes)
    return lost


def _valid_batches(segment: DiskSegment, size: int) -> Iterator[tuple[memoryview, tuple[int, ...]]]:
    """Iterate over the batches up to the first invalid one, with the fields of their headers.

    Flat, and without an object for each batch: a log can have a batch for each record.
    """
    position, next_offset = 0, segment.base_offset
    wanted = CHUNK_BYTES
    while position + HEADER_BYTES <= size:
        data = memoryview(segment.log.read(position, min(wanted, size - position)))
        at, end = 0, len(data)
        wanted = CHUNK_BYTES
        while at + HEADER_BYTES <= end:
            header = HEADER.unpack_from(data, at)
            base_offset, length, _, magic, crc, _, last_delta, _, _, _, _, _, count = header
            stop = at + LENGTH_END + length
            if length < HEADER_BYTES - LENGTH_END or position + stop > size or magic != MAGIC:
                return
            # The first segment of a follower can start within a batch, if its leader's log does.
            if base_offset < next_offset and position + at:
                return
            after = base_offset + last_delta + 1
            if base_offset < 0 or last_delta < 0 or not next_offset < after <= MAX_OFFSET:
                return
            if not 0 <= count <= last_delta + 1:
                return
            if stop > end:
                wanted = max(stop - at, CHUNK_BYTES)
                break
            if crc32c(data[at + CRC_START : stop]) != crc:
                return
            yield data[at:stop], header
            next_offset, at = after, stop
        if not at and wanted == CHUNK_BYTES:
            return
        position += at


# ---------------------------------------------------------------------- files that a crash has left


def clear_interrupted(volume: Volume, directory: str, names: list[str]) -> list[str]:
    """Remove or complete what was under way when the broker ended. Return the names that are left.

    Deleted files are removed, and so are the segments of an unfinished compaction. Once all of them are named
    .swap, the compaction is completed: the segments that they replace are removed. Raise `OSError`.
    """
    files = volume.files
    cleaned = bases_in(names, CLEANED)
    first_cleaned = min(cleaned, default=None)
    swapped: set[int] = set()
    for name in names:
        path = f"{directory}/{name}"
        if name.endswith((DELETED, CLEANED, *OWN_TEMPORARY)):
            files.remove(path)
        elif name.endswith(SWAP):
            if first_cleaned is not None and _base_of(name) >= first_cleaned:
                files.remove(path)
            else:
                swapped.add(_base_of(name))
    for base_offset in swapped - {-1}:
        _complete_swap(volume, directory, base_offset)
    names = files.names(directory)
    logs = {_base_of(name) for name in names if name.endswith(LOG)}
    for name in names:
        if name.endswith((OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)) and _base_of(name) not in {*logs, -1}:
            logger.warning("Removed %s/%s, an index without a segment", directory, name)
            files.remove(f"{directory}/{name}")
    return [name for name in names if files.exists(f"{directory}/{name}")]


def _complete_swap(volume: Volume, directory: str, base_offset: int) -> None:
    files = volume.files
    log_path = f"{directory}/{base_offset:0{DIGITS}d}{LOG}"
    if files.exists(log_path + SWAP):
        swap = open_segment(volume, directory, base_offset, SWAP)
        replaced = [
            name
            for name in files.names(directory)
            if name.endswith(LOG) and base_offset <= _base_of(name) < max(swap.end_offset, base_offset + 1)
        ]
        for name in replaced:
            remove_segment(volume, directory, _base_of(name))
        swap.close()
    for kind in (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX):
        path = f"{directory}/{base_offset:0{DIGITS}d}{kind}"
        if files.exists(path + SWAP):
            files.rename(path + SWAP, path)


def remove_segment(volume: Volume, directory: str, base_offset: int) -> None:
    """Remove the files of a segment, whichever exist. Raise `OSError`."""
    for kind in (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX):
        with suppress(FileNotFoundError):
            volume.files.remove(f"{directory}/{file_name(base_offset, kind)}")


def set_segment_aside(volume: Volume, directory: str, base_offset: int) -> None:
    """Rename the log of a segment, which is no longer used, and remove its indexes. Raise `OSError`."""
    path = f"{directory}/{file_name(base_offset, LOG)}"
    ending = LOST
    while volume.files.exists(path + ending):
        ending += LOST
    volume.files.rename(path, path + ending)
    for kind in (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX):
        with suppress(FileNotFoundError):
            volume.files.remove(f"{directory}/{file_name(base_offset, kind)}")


def bases_in(names: Iterable[str], kind: str) -> list[int]:
    """Return the base offsets in the names of files of a kind. Files with other names are ignored."""
    return [_base_of(name) for name in names if name.endswith(kind) and _base_of(name) >= 0]


def _base_of(name: str) -> int:
    """Return the base offset in the name of a file, or -1 if it is not Kafka's."""
    digits = name.partition(".")[0]
    return int(digits) if len(digits) == DIGITS and digits.isascii() and digits.isdigit() else -1
