"""Share groups (KIP-932) on the brokers that lead their partitions, and the client of their coordinator."""
