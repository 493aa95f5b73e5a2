"""Transactions: producers' ids and epochs, what takes part, decisions, markers, verification (KIP-890)."""
