"""Faults that a test can inject: rules, errors for some partitions, client links, throttles."""
