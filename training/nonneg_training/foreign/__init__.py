"""Anybody's ONNX image encoder, made to look like ours: for a head that is trained on it, and for a bundle of it."""

from __future__ import annotations


def is_foreign(backbone: str) -> bool:
    """Whether a backbone's name is the path of an ONNX file."""
    return backbone.endswith(".onnx")
