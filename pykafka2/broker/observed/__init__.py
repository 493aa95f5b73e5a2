"""What was seen of the brokers: the history of requests and the log of events."""
