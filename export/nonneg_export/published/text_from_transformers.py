"""The text tower of a model of transformers, exported through torch, with its tokenizer as data."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nonneg_export.convert import text_to_onnx
from nonneg_export.published.published_tokenizer import check_known, padding
from nonneg_export.published.repository import LARGEST_TEXT, Repository
from nonneg_export.text_towers import TOKENIZER, Rows, TextEncoder
from nonneg_runtime.text_tower import Tokenizer, Tokens


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
    pad = padding(repository, path)
    check_known(repository, Tokenizer(path, length, pad), int(model.config.text_config.vocab_size))
    module = Worded(model).eval()

    def run(tokens: Tokens) -> Rows:
        with torch.inference_mode():
            rows: Rows = module(torch.from_numpy(np.ascontiguousarray(tokens))).numpy()
        return rows

    return TextEncoder(text_to_onnx(module, length), path, length, pad, run)
