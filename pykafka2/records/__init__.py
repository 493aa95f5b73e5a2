"""Record batches: bytes <-> records, the hot path. Flat functions on the caller's thread."""
