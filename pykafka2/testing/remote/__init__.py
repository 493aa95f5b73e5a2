"""Clusters in another process, and the HTTP admin port that controls them."""
