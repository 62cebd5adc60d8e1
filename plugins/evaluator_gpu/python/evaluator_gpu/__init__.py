"""The evaluator that measures on a GPU."""
