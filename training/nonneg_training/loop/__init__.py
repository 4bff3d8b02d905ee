"""A run, from its settings to its folder: the encoder is built, the loop trains it, the checkpoint keeps it."""
