"""Adapters that let other frameworks run on pykafka2's clients; each needs its extra."""
