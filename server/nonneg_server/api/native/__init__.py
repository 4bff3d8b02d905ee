"""The API of our own, of which the others are translations."""
