"""Share groups (KIP-932): members, the partitions they share, start offsets."""
