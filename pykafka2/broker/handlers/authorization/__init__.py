"""Authorization of requests: a table of the APIs (table.py), applied by the gate (gate.py)."""
