"""Shared code of the benchmarks of producers and consumers: clients in processes of their own, in turn."""
