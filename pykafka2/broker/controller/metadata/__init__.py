"""The cluster's metadata as records: the state they produce, the metadata log, its storage and recovery."""
