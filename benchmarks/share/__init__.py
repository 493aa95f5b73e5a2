"""Compares share consumers."""
