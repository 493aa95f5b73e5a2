"""How fast producers are, side by side: `python -m benchmarks.producer --help`."""
