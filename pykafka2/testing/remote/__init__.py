"""Clusters in another process, and the admin port over HTTP that steers them."""
