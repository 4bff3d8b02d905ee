"""A text tower that makes its own columns: they are put in the order that ranks the image tower's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from nonneg_export.checks import verify
from nonneg_export.graphs.canonical import canonical, save
from nonneg_export.graphs.columns import select_columns
from nonneg_export.texts.text_towers import FEW, TEXT, TOKENIZER, Rows, described, samples
from nonneg_runtime.bundle import Bundle
from nonneg_runtime.evidence import Check
from nonneg_runtime.inference.session import Session
from nonneg_runtime.manifest import TextRecord
from nonneg_runtime.words.text_tower import TOKENS, Tokenizer, Tokens
from nonneg_training.onnx_backbone.onnx_graph import load


@dataclass(frozen=True, eq=False)
class TextColumns:
    """tokens -> the columns of a draft, in the draft's order; `reference` is what the original answers, if at hand."""

    model: ModelProto
    tokenizer: str  # the content of its file
    length: int
    pad: int
    reference: Callable[[Tokens], Rows] | None = None
    checks: tuple[Check, ...] = ()  # that held already

    def beside(self, order: NDArray[np.int64], place: Path) -> TextRecord:
        """Write text.onnx, its columns in this order, and its tokenizer."""
        save(canonical(select_columns(self.model, order)), place / TEXT)
        (place / TOKENIZER).write_text(self.tokenizer, encoding="utf-8")
        reader = Tokenizer(place / TOKENIZER, self.length, self.pad)
        return described(place, reader, self.checks or self._verified(order, reader, place))

    def _verified(self, order: NDArray[np.int64], reader: Tokenizer, place: Path) -> tuple[Check, ...]:
        rows = reader.rows(samples()[:FEW], truncate=True)
        session = Session(place / TEXT, takes=TOKENS)
        alone = np.concatenate([session.run(row[None]) for row in rows])
        found = [verify.texts_ignore_each_other(alone, session.run(rows))]
        if self.reference is not None:
            by_original = self.reference(rows)[:, order]
            found.insert(0, verify.features_agree(by_original, alone, f"{len(rows)} texts"))
        return tuple(found)


def columns_of(bundle: Bundle) -> TextColumns | None:
    """Return the text tower of a bundle, its head within; None where it has none."""
    record = bundle.manifest.text
    if record is None:
        return None
    tokenizer = (bundle.path / record.tokenizer).read_text(encoding="utf-8")
    return TextColumns(load(bundle.path / record.file), tokenizer, record.length, record.pad, checks=record.checks)
