"""Names of dimensions, and words that a model knows: from text and expressions to vectors."""
