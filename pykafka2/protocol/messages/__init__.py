"""Kafka's messages, one module per family; registry.py imports a module when a message of it is asked for."""
