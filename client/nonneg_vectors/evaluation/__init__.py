"""The maths of evaluation, in numpy: rankings, metrics, selections of dimensions, structure, and uncertainty."""
