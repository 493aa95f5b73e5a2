"""Codecs by id or name; each loads its library at first use and limits its output.

Runs on whichever thread builds or reads a batch; codecs have no state, so threads can share them. Used by
records/.
"""

from pykafka2.compression.codec import MAX_OUTPUT_BYTES, Codec, codec

__all__ = ["MAX_OUTPUT_BYTES", "Codec", "codec"]
