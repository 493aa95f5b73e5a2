"""How fast the asyncio clients are, side by side."""
