"""Bytes to messages and back; knows no sockets.

Declarations stand in messages/, one file per family; fields.py and struct.py are what they are written with,
compiler.py, encoding.py and decoding.py make codecs of them, registry.py finds them, framing.py puts lengths
and headers around them.
"""
