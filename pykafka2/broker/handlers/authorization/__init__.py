"""Who may have which request carried out: a table of the APIs (table.py), gone by at the gate (gate.py)."""
