"""What a test may do to requests: rules, errors for some partitions, clients' links, throttles."""
