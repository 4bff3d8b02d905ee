"""The text tower of a model of transformers, exported through torch, with its tokenizer as data."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nonneg_core.errors import DataInvalid
from nonneg_export.convert import text_to_onnx
from nonneg_export.published.repository import LARGEST_TEXT, Repository
from nonneg_export.text_towers import TOKENIZER, Rows, TextEncoder
from nonneg_runtime.text_tower import Tokenizer, Tokens

USUAL_PAD = ("<|endoftext|>", "</s>", "<pad>", "[PAD]")


class Worded(nn.Module):
    """int64 (batch, length) -> one row of features a text."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        output = self.model.get_text_features(input_ids=tokens)
        found: Tensor = output if isinstance(output, Tensor) else output.pooler_output
        return found


def text_encoder(repository: Repository, model: Any) -> TextEncoder:
    """The model's text tower, its tokenizer checked against it."""
    length = int(model.config.text_config.max_position_embeddings)
    path = repository.fetch(TOKENIZER, LARGEST_TEXT)
    pad = _pad(repository, path)
    known = int(model.config.text_config.vocab_size)
    largest = Tokenizer(path, length, pad).largest
    if largest >= known:
        raise DataInvalid(
            f"{TOKENIZER} of {repository} gives numbers up to {largest}, and the text tower knows {known}: it is "
            "another model's",
            fix="name another revision, or wrap the image tower alone with --no-text",
            value=largest,
            limit=known - 1,
        )
    module = Worded(model).eval()

    def run(tokens: Tokens) -> Rows:
        with torch.inference_mode():
            rows: Rows = module(torch.from_numpy(np.ascontiguousarray(tokens))).numpy()
        return rows

    return TextEncoder(text_to_onnx(module, length), path, length, pad, run)


def _pad(repository: Repository, path: Any) -> int:
    """The number of the token that fills up short texts."""
    from tokenizers import Tokenizer as Library

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
