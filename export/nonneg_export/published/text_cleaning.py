"""What a model's own library does to a text before its tokenizer reads it, put into the tokenizer's file.

SigLIP was trained on texts in lower case without punctuation, which its tokenizer's file may leave to the library.
"""

from __future__ import annotations

from typing import Any

from nonneg_core.installing import needing

PUNCTUATION = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"""
BY_FAMILY = {"siglip": "bare", "siglip2": "lowered"}  # by the `model_type` of a configuration
OPEN, SAME = "canonicalize", "whitespace"


def of_family(written: str, model_type: str) -> str:
    """Return the tokenizer's file of such a model."""
    way = BY_FAMILY.get(model_type)
    return written if way is None else cleaned(written, way)


def cleaned(written: str, way: str) -> str:
    """Return the same tokenizer, which cleans a text before it does what it did; cleaning twice changes nothing."""
    of = library()
    made = of.Tokenizer.from_str(written)
    before, own = normalizer(way), made.normalizer
    made.normalizer = before if own is None else of.normalizers.Sequence([before, own])
    return str(made.to_str())


def normalizer(way: str) -> Any:
    """Clean as open_clip's `lower`, `whitespace` and `canonicalize`, which mends broken Unicode and HTML, too."""
    of, regex = library().normalizers, library().Regex
    if way == "lowered":
        return of.Lowercase()
    steps = [of.NFC()]
    if way == OPEN:
        steps.append(of.Replace("_", " "))
    if way in (OPEN, "bare"):
        steps.append(of.Replace(regex(PUNCTUATION), ""))
    if way != SAME:
        steps.append(of.Lowercase())
    return of.Sequence([*steps, of.Replace(regex(r"\s+"), " "), of.Strip()])


def library() -> Any:
    """Return the package tokenizers, or the extra that brings it."""
    with needing("text", extra="text"):
        import tokenizers
    return tokenizers
