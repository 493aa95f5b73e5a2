"""What a test may do to a cluster: `cluster.controls`."""
