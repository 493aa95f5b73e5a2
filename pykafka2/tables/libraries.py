"""Loads the optional libraries of tables, or says how to install them."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

INSTALL = {
    "numpy": "pip install 'pykafka2[tables]'",
    "pyarrow": "pip install 'pykafka2[tables]'",
    "polars": "pip install 'pykafka2[tables]' polars",
    "pandas": "pip install 'pykafka2[tables]' pandas",
    "duckdb": "pip install 'pykafka2[tables]' duckdb",
}


def load(name: str) -> ModuleType:
    """Return the module. Raise ImportError with the command that installs it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"{name} is needed ({error}): {INSTALL[name]}", name=name) from error
