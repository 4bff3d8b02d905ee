"""The text tower of a two-tower run as ONNX, with its bytes as a tokenizer of the package `tokenizers`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from nonneg_core.errors import MissingExtra
from nonneg_core.installing import extra_hint
from nonneg_export.columns import activate
from nonneg_export.convert import text_to_onnx
from nonneg_export.text_columns import TextColumns
from nonneg_export.text_towers import Rows
from nonneg_runtime.text_tower import Tokens
from nonneg_training.checkpoint import load_text
from nonneg_training.text import PAD, START, byte_token


def text_of_run(run: Path, length: int, *, relu: bool) -> TextColumns:
    """The tower that a run trained beside its image encoder; `relu`: behind both."""
    tower = load_text(run)

    def answer(tokens: Tokens) -> Rows:
        with torch.inference_mode():
            rows: Rows = tower(torch.from_numpy(np.ascontiguousarray(tokens))).numpy()
        return np.maximum(rows, 0) if relu else rows

    graph = text_to_onnx(tower, length)
    return TextColumns(activate(graph) if relu else graph, byte_tokenizer(), length, PAD, answer)


def byte_tokenizer() -> str:
    """The tokenizer's file: a token for each byte of UTF-8 behind one that begins the text."""
    try:
        from tokenizers import Tokenizer, models, pre_tokenizers, processors
    except ModuleNotFoundError:
        raise MissingExtra("a two-tower run needs the package tokenizers", fix=extra_hint("text")) from None
    letters = {letter: byte_token(byte) for byte, letter in byte_letters().items()}
    made = Tokenizer(models.BPE(vocab={"<pad>": PAD, "<start>": START, **letters}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.post_processor = processors.TemplateProcessing(single="<start> $A", special_tokens=[("<start>", START)])
    return str(made.to_str())


def byte_letters() -> dict[int, str]:
    """The letter by which the package writes each byte: printable ones stand for themselves, others from U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {**{byte: chr(byte) for byte in plain}, **{byte: chr(0x100 + i) for i, byte in enumerate(others)}}
