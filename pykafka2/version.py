"""The version, written only here: the build reads it, and `pykafka2.__version__` is the same."""

from __future__ import annotations

__version__ = "0.1.0"
