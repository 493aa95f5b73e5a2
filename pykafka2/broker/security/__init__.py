"""Who asks a broker, how it proves who it is, and what it may do: pure code, below all that serves."""
