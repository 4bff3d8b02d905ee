"""Heads: from the roots of pooled features to the embedding."""
