"""A published tokenizer: whether it is its model's, and what it fills short texts up with."""

from __future__ import annotations

from pathlib import Path

from nonneg_core.errors import DataInvalid, MissingExtra
from nonneg_core.installing import extra_hint
from nonneg_export.published.repository import Repository
from nonneg_export.text_towers import TOKENIZER
from nonneg_runtime.text_tower import Tokenizer

USUAL_PAD = ("<|endoftext|>", "</s>", "<pad>", "[PAD]")


def check_known(repository: Repository, reader: Tokenizer, known: int) -> None:
    """Refuse a tokenizer that gives numbers which the tower does not know."""
    if reader.largest >= known:
        raise DataInvalid(
            f"{TOKENIZER} of {repository} gives numbers up to {reader.largest}, and the text tower knows {known}: it "
            "is another model's",
            fix="name another revision, or wrap the image tower alone with --no-text",
            value=reader.largest,
            limit=known - 1,
        )


def padding(repository: Repository, path: Path) -> int:
    """The number of the token that fills up short texts."""
    try:
        from tokenizers import Tokenizer as Library
    except ModuleNotFoundError:
        raise MissingExtra("text needs the package tokenizers", fix=extra_hint("text")) from None
    said = repository.json("tokenizer_config.json").get("pad_token")
    said = said.get("content") if isinstance(said, dict) else said
    try:
        vocabulary = Library.from_file(str(path))
    except Exception as error:  # the library raises Exception itself
        raise DataInvalid(
            f"{TOKENIZER} of {repository} is not a tokenizer ({error})", fix="name another revision"
        ) from error
    for token in (said, *USUAL_PAD):
        number = vocabulary.token_to_id(token) if isinstance(token, str) else None
        if number is not None:
            return int(number)
    return 0
