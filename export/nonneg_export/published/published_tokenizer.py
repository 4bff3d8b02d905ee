"""A published tokenizer: whether it is its model's, and what it fills short texts up with."""

from __future__ import annotations

from typing import Any

from nonneg_core.errors import DataInvalid, NonnegError
from nonneg_export.published.repository import LARGEST_TOKENIZER, HubRepository
from nonneg_export.published.text_cleaning import library, of_family
from nonneg_export.texts.text_towers import TOKENIZER
from nonneg_runtime.words.text_tower import Tokenizer

USUAL_PAD = ("<|endoftext|>", "</s>", "<pad>", "[PAD]")


def check_known(repository: HubRepository, reader: Tokenizer, known: int) -> None:
    """Refuse a tokenizer that gives numbers which the tower does not know."""
    if reader.largest >= known:
        raise DataInvalid(
            f"{TOKENIZER} of {repository} gives numbers up to {reader.largest}, and the text tower knows {known}: it "
            "is another model's",
            fix="name another revision, or wrap the image tower alone with --no-text",
            value=reader.largest,
            limit=known - 1,
        )


def published_tokenizer(repository: HubRepository, config: dict[str, Any]) -> str:
    """Return the content of the repository's tokenizer, with what the model's library does to a text before it."""
    path = repository.fetch(TOKENIZER, LARGEST_TOKENIZER)
    try:
        written = path.read_text(encoding="utf-8")
        library().Tokenizer.from_str(written)
    except NonnegError:
        raise
    except Exception as error:  # the library raises Exception itself
        raise DataInvalid(
            f"{TOKENIZER} of {repository} is not a tokenizer ({error})", fix="name another revision"
        ) from error
    return of_family(written, str(config.get("model_type", "")))


def padding(repository: HubRepository, written: str) -> int:
    """Return the number of the token that fills up short texts."""
    said = repository.json("tokenizer_config.json").get("pad_token")
    said = said.get("content") if isinstance(said, dict) else said
    vocabulary = library().Tokenizer.from_str(written)
    for token in (said, *USUAL_PAD):
        number = vocabulary.token_to_id(token) if isinstance(token, str) else None
        if number is not None:
            return int(number)
    return 0
