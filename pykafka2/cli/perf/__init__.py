"""The verb perf: rates and latencies of produce, consume and both."""
