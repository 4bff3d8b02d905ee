"""Engines on servers that an `Index` can stand on."""
