"""Adaptation: one's own photos -> features -> two parts -> a head for them -> judged beside the model it came from."""
