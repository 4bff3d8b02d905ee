"""The text tower of a model of transformers, exported through torch, with its tokenizer as data.

A tower is taken where it reads tokens alone: others need a mask of what is padding, and would answer otherwise.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from nonneg_export.published.published_tokenizer import check_known, padding, published_tokenizer
from nonneg_export.published.repository import LARGEST_TEXT, LARGEST_TOKENIZER, HubRepository
from nonneg_export.published.text_cleaning import BY_FAMILY
from nonneg_export.published.torch_tower import as_text_encoder, package
from nonneg_export.silence import silenced
from nonneg_export.texts.text_towers import TOKENIZER, TextEncoder, samples
from nonneg_runtime.words.text_tower import Tokenizer, Tokens

MASKLESS = ("clip", "metaclip_2", "siglip", "siglip2")
BESIDE = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt")
FoundText = tuple[TextEncoder | None, str]  # the tower, and what to say of it


def text_encoder(repository: HubRepository, model: Any) -> FoundText:
    """Return the model's text tower, its tokenizer checked against it and against the library's."""
    kind = str(model.config.model_type)
    if kind not in MASKLESS:
        return None, f"its text tower is left out: only those of {', '.join(MASKLESS)} read tokens without a mask"
    if TOKENIZER not in repository.files:
        return None, f"its text tower is left out, for the repository has no {TOKENIZER}"
    length = int(model.config.text_config.max_position_embeddings)
    written = published_tokenizer(repository, {"model_type": kind})
    pad = padding(repository, written)
    reader = Tokenizer(written, length, pad)
    check_known(repository, reader, int(model.config.text_config.vocab_size))
    folder, texts = _fetch_tokenizer(repository), _texts(kind)
    try:
        expected = _librarys_rows(folder, texts, length)
    except Exception as error:  # the library raises what its many tokenizers raise
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        said = f"with its text tower; its tokenizer was not compared with the library's ({reason})"
    else:
        if not np.array_equal(reader.rows(texts, truncate=True), expected):
            return None, f"its text tower is left out: transformers reads texts otherwise than {TOKENIZER} alone"
        said = f"with its text tower, whose tokens are the library's for {len(texts)} texts"
    return as_text_encoder(model, _features, written, length, pad), said


def _texts(kind: str) -> list[str]:
    """Return texts to compare; where ours cleans a text by itself, such that cleaning leaves as they are."""
    return [re.sub(r"[^a-z0-9 ]", "", text.lower()) for text in samples()] if kind in BY_FAMILY else samples()


def _fetch_tokenizer(repository: HubRepository) -> Path:
    """Return the folder with all that transformers reads a tokenizer from, as far as the repository has it."""
    for name in BESIDE:
        if name in repository.files:
            repository.fetch(name, LARGEST_TEXT)
    return repository.fetch(TOKENIZER, LARGEST_TOKENIZER).parent


def _librarys_rows(folder: Path, texts: list[str], length: int) -> Tokens:
    """Return the tokens that transformers makes of texts."""
    with silenced():
        theirs = package("transformers").AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        rows = theirs(texts, padding="max_length", max_length=length, truncation=True)["input_ids"]
    return np.asarray(rows, dtype=np.int64)


def _features(model: Any, tokens: Tensor) -> Tensor:
    output = model.get_text_features(input_ids=tokens)
    found: Tensor = output if isinstance(output, Tensor) else output.pooler_output
    return found
