"""Curves of throughput, latency and processor time over the options of clients and broker."""
