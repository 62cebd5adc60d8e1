"""When is a candidate's output the reference's? Inputs, weights, outputs and numbers."""
