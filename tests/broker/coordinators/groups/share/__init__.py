"""Tests of share groups at their coordinator."""
