"""The progress bar of a scan: tqdm's, in a terminal or a notebook."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

SECONDS_BEFORE_IT_SHOWS = 1.0


@contextmanager
def progress_bar(
    progress: bool | None, total: int, topics: Sequence[str]
) -> Iterator[Callable[[int], object]]:
    """Return a function that counts records. None shows a bar in a terminal or a notebook, after a second."""
    if progress is False or (progress is None and not (_is_terminal() or _is_notebook())):
        yield lambda count: None
        return
    if _is_notebook():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # without ipywidgets it is a bar of text
            from tqdm.auto import tqdm
    else:
        from tqdm import tqdm
    tqdm.monitor_interval = 0  # no thread that watches the bar
    delay = 0.0 if progress else SECONDS_BEFORE_IT_SHOWS
    text = ", ".join(topics[:3]) + (", ..." if len(topics) > 3 else "")
    with tqdm(total=total, desc=text, unit="records", unit_scale=True, delay=delay) as bar:
        yield bar.update
        bar.total = bar.n  # offsets without a record are not counted


def _is_terminal() -> bool:
    try:
        return bool(sys.stderr is not None and sys.stderr.isatty())
    except ValueError:  # closed
        return False


def _is_notebook() -> bool:
    """Return whether a kernel of Jupyter runs this code."""
    shell = sys.modules.get("IPython")
    found = shell.get_ipython() if shell is not None and hasattr(shell, "get_ipython") else None
    return found is not None and hasattr(found, "kernel")
