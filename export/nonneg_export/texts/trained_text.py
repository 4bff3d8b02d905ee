"""The text tower of a two-tower run as ONNX, with its bytes as a tokenizer of the package `tokenizers`."""

from __future__ import annotations

from pathlib import Path

from nonneg_core.installing import needing
from nonneg_export.graphs.columns import activate
from nonneg_export.graphs.convert import in_torch, text_to_onnx
from nonneg_export.texts.text_columns import TextColumns
from nonneg_training.checkpoint import load_text
from nonneg_training.text_encoder import PAD, START, byte_token


def text_of_run(run: Path, length: int, *, relu: bool) -> TextColumns:
    """Return the tower that a run trained beside its image encoder; `relu`: behind both."""
    tower = load_text(run)
    graph = text_to_onnx(tower, length)
    return TextColumns(activate(graph) if relu else graph, byte_tokenizer(), length, PAD, in_torch(tower, relu=relu))


def byte_tokenizer() -> str:
    """Return the tokenizer's file: a token for each byte of UTF-8 behind one that begins the text."""
    with needing("a two-tower run", extra="text"):
        from tokenizers import Tokenizer, models, pre_tokenizers, processors
    letters = {letter: byte_token(byte) for byte, letter in byte_letters().items()}
    made = Tokenizer(models.BPE(vocab={"<pad>": PAD, "<start>": START, **letters}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.post_processor = processors.TemplateProcessing(single="<start> $A", special_tokens=[("<start>", START)])
    return str(made.to_str())


def byte_letters() -> dict[int, str]:
    """Map bytes to the letters of the package: printable ones stand for themselves, others from U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return {**{byte: chr(byte) for byte in plain}, **{byte: chr(0x100 + i) for i, byte in enumerate(others)}}
