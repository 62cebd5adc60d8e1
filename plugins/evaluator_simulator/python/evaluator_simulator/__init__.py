"""The simulator: judges a recorded kernel without a GPU."""
