"""A bundle: the folder that is a model, and the files in it."""
