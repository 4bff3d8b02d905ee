"""Cohere's v2 embed API."""
