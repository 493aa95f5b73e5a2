"""Transactions: producer ids and epochs, partitions, decisions, markers, verification (KIP-890)."""
