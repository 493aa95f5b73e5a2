"""Encodes and decodes Kafka's messages, without IO.

messages/ has the declarations, one file per family, written with fields.py and struct.py. encoding.py and
decoding.py generate their codecs, methods.py their `__init__` and `__eq__`; registry.py finds them, and
framing.py adds lengths and headers.
"""
