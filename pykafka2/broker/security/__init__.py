"""Authentication, principals and authorization of requests: pure code, below all serving code."""
