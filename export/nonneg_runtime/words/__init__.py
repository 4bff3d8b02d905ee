"""Names of dimensions, words that a model knows, and text towers: from text to vectors."""
