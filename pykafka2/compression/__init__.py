"""Codecs by id or name; each loads its library at first use and never produces more than it is allowed.

Runs on whichever thread builds or reads a batch; codecs hold no state and may be shared by threads.
Used by records/; knows nothing of batches.
"""

from pykafka2.compression.codec import MAX_OUTPUT_BYTES, Codec, codec

__all__ = ["MAX_OUTPUT_BYTES", "Codec", "codec"]
