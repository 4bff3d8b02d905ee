"""Embeddings, and the files and data sets that hold them."""
