"""Runs the command `pykafka2` for `python -m pykafka2`."""

from __future__ import annotations

import sys

from pykafka2.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
