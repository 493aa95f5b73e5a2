"""The pytest plugin: found by itself through the `pytest11` entry point; loads pytest only until used."""

from __future__ import annotations
