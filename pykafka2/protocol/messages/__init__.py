"""Kafka's messages, one module per family; registry.py imports a module at the first use of its messages."""
