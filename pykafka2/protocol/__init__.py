"""Bytes to messages and back; knows no sockets.

Declarations stand in messages/, one file per family; fields.py and struct.py are what they are written with,
encoding.py and decoding.py make codecs of them, methods.py their `__init__` and `__eq__`, registry.py finds
them, framing.py puts lengths and headers around them.
"""
