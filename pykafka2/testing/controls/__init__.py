"""Controls of a cluster: `cluster.controls`."""
