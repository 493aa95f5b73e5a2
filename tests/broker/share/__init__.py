"""Tests of share groups on the leaders of their partitions."""
