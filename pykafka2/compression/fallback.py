"""lz4 and zstd with cramjam (a dependency of python-snappy), if their own packages have no wheel.

Any thread. cramjam decompresses into a buffer of a fixed size, which limits the output.
"""

from __future__ import annotations

from pykafka2.compression.codec import Buffer, Codec

FIRST_GUESS_BYTES = 64 << 10


def compress(codec: Codec, module: str, data: Buffer, level: int | None, missing: ImportError) -> bytes:
    """Compress with cramjam's module of that name; missing is why the usual library is not there."""
    try:
        import cramjam
    except ImportError:
        raise codec.unavailable(codec.name if codec.name == "lz4" else "zstandard", missing) from missing
    if level is None:
        return bytes(getattr(cramjam, module).compress(data))
    return bytes(getattr(cramjam, module).compress(data, level=level))


def decompress(codec: Codec, module: str, data: Buffer, max_output_bytes: int, missing: ImportError) -> bytes:
    """Decompress into buffers of growing size, the last of them one byte over the cap."""
    try:
        import cramjam
    except ImportError:
        raise codec.unavailable(codec.name if codec.name == "lz4" else "zstandard", missing) from missing
    decompress_into = getattr(cramjam, module).decompress_into
    size = max(FIRST_GUESS_BYTES, 4 * len(data))
    while True:
        size = min(size, max_output_bytes + 1)
        output = bytearray(size)
        try:
            written: int = decompress_into(data, output)
        except cramjam.DecompressionError as error:
            # Libraries report a full buffer in different words; a larger buffer shows whether it is damage.
            if size <= max_output_bytes:
                size *= 4
                continue
            raise codec.damaged(f"{error}, or it is more than {max_output_bytes} bytes") from error
        if written > max_output_bytes:
            raise codec.too_large(max_output_bytes)
        return bytes(memoryview(output)[:written])
