"""Cheaper one-time start of Hypothesis in each process: it takes seconds in a fresh clone."""

from __future__ import annotations

import os
import subprocess
import sys
import unicodedata
from importlib import import_module
from pathlib import Path
from types import ModuleType


def make_unicode_tables() -> None:
    """Let a child process make the tables that Hypothesis draws texts from, where it has none yet.

    Once in a clone it goes through all of Unicode for them, in lists of 200 MB, and keeps in files what it
    found, with which it takes 2 MB.
    """
    directory = Path(os.environ.get("HYPOTHESIS_STORAGE_DIRECTORY", ".hypothesis"))
    if not (directory / "unicode_data" / unicodedata.unidata_version).exists():
        code = "from hypothesis import strategies; strategies.text().validate()"
        subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def leave_out_our_constants() -> None:
    """Keep Hypothesis from parsing all our modules for numbers and texts that it then tries now and then.

    There is no setting for it, so a function of its own is replaced, where there is one: without it a run
    takes some seconds longer and is the same otherwise.  `nox -s tests` lets it try them.
    """
    try:
        providers: ModuleType = import_module("hypothesis.internal.conjecture.providers")
    except ImportError:  # an older Hypothesis, which reads no modules
        return
    if hasattr(providers, "_get_local_constants"):
        vars(providers)["_get_local_constants"] = lambda: providers._local_constants
