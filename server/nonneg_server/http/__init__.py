"""Around every request: its connection, its key, its id, and the shape of its failure."""
