"""The version of the package. The build reads it from here, and `pykafka2.__version__` is the same."""

from __future__ import annotations

__version__ = "0.1.0"
