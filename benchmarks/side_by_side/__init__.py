"""What the benchmarks of producers and consumers share: clients in processes of their own, taking turns."""
