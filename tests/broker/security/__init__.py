"""Tests of who asks a broker, and how it knows."""
