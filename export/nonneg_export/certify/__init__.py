"""Certifying that the dimensions of a bundle mean something: figures, floors and a verdict."""
