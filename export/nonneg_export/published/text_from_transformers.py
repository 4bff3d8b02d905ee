"""The text tower of a model of transformers, exported through torch, with its tokenizer as data."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from nonneg_export.published.published_tokenizer import check_known, padding, published_tokenizer
from nonneg_export.published.repository import HubRepository
from nonneg_export.published.torch_tower import as_text_encoder
from nonneg_export.texts.text_towers import TextEncoder
from nonneg_runtime.words.text_tower import Tokenizer


def text_encoder(repository: HubRepository, model: Any) -> TextEncoder:
    """Return the model's text tower, its tokenizer checked against it."""
    length = int(model.config.text_config.max_position_embeddings)
    written = published_tokenizer(repository, {"model_type": model.config.model_type})
    pad = padding(repository, written)
    check_known(repository, Tokenizer(written, length, pad), int(model.config.text_config.vocab_size))
    return as_text_encoder(model, _features, written, length, pad)


def _features(model: Any, tokens: Tensor) -> Tensor:
    output = model.get_text_features(input_ids=tokens)
    found: Tensor = output if isinstance(output, Tensor) else output.pooler_output
    return found
