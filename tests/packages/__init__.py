"""Checks of what users install: wheels for each platform, packages in fresh environments, other Pythons."""
