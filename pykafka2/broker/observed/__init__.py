"""Observations of the brokers: the request history and the event log."""
