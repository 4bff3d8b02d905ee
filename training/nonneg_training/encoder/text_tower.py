"""The text tower: bytes -> small transformer -> projector -> the same activation as the images'."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from nonneg_training.encoder.encoder_module import EncoderModule, activation
from nonneg_training.setup.run_settings import TextSettings

PAD, START, VOCABULARY = 0, 1, 258  # a byte b is token b + 2


def byte_token(byte: int) -> int:
    """Return the number of the token that stands for a byte."""
    return byte + 2


def tokens(captions: Sequence[str], length: int) -> Tensor:
    """Return captions as UTF-8 bytes behind a start token, cut or padded to `length`: int64 (batch, length)."""
    rows = torch.full((len(captions), length), PAD)
    for row, caption in zip(rows, captions, strict=True):
        codes = [START, *map(byte_token, caption.encode())][:length]
        row[: len(codes)] = torch.tensor(codes)
    return rows


def tower_beside(encoder: EncoderModule, text: TextSettings) -> "TextTowerModule":
    """Return the text tower of these settings whose columns are those of an image encoder."""
    return TextTowerModule(
        encoder.dimensions,
        activation=encoder.activation,
        width=text.width,
        layers=text.layers,
        length=text.length,
        batch_norm=encoder.norm is not None,
    )


class TextTowerModule(nn.Module):
    """Token numbers (batch, length) -> activated features (batch, D), not divided by their length."""

    def __init__(
        self, dimensions: int, *, activation: str, width: int, layers: int, length: int, batch_norm: bool
    ) -> None:
        super().__init__()
        self.activation = activation
        self.embedding = nn.Embedding(VOCABULARY, width, padding_idx=PAD)
        self.position = nn.Parameter(torch.randn(length, width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            width, max(1, width // 32), 4 * width, 0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.output = nn.Linear(width, dimensions)
        self.norm = nn.BatchNorm1d(dimensions) if batch_norm else None

    def forward(self, rows: Tensor) -> Tensor:
        empty = rows == PAD  # (batch, length)
        x = self.layers(self.embedding(rows) + self.position, src_key_padding_mask=empty)
        mean = (x * ~empty[..., None]).sum(dim=1) / (~empty).sum(dim=1, keepdim=True)
        z: Tensor = self.output(mean)
        return activation(self.activation)(z if self.norm is None else self.norm(z))
