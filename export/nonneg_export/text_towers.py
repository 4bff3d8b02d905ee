"""A text tower put beside an image tower: the same head behind it, moved to where the images' features lie."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from nonneg_core.cores import available_cores
from nonneg_core.errors import DataInvalid
from nonneg_core.shortening import unit
from nonneg_export import verify
from nonneg_export.canonical import canonical, save
from nonneg_export.columns import width
from nonneg_export.root_head import refer_to_head, with_root_head
from nonneg_export.statistics import rounded
from nonneg_runtime.bundle import SHIPPED
from nonneg_runtime.evidence import Check, Golden
from nonneg_runtime.head_file import HEAD, read_head
from nonneg_runtime.manifest import TextRecord
from nonneg_runtime.names import NAMES, read_names
from nonneg_runtime.session import Session
from nonneg_runtime.text_tower import GOLDEN, TOKENS, Tokenizer, Tokens

TEXT, TOKENIZER = "text.onnx", "tokenizer.json"
SAMPLES = 200  # texts that the towers' gap is measured on
FEW = 16  # of these are compared with the original framework, one by one and together
Rows = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class TextEncoder:
    """tokens -> features; `reference` is what the original answers, where it is at hand."""

    model: ModelProto
    tokenizer: Path
    length: int
    pad: int
    reference: Callable[[Tokens], Rows] | None = None

    def reader(self) -> Tokenizer:
        """What turns texts into tokens."""
        return Tokenizer(self.tokenizer, self.length, self.pad)


def beside(text: TextEncoder, images: Rows, place: Path) -> TextRecord:
    """Write text.onnx and its tokenizer beside the encoder and its head; `images`: features that it was computed from.

    The two towers of CLIP-like models lie apart (the modality gap): all texts differ from all images in one direction.
    The texts' mean is moved to the images', so that the head sees what differs between texts.
    """
    if width(text.model) != images.shape[1]:
        raise DataInvalid(
            f"the image tower answers {images.shape[1]} columns and the text tower {width(text.model)}",
            fix="take two towers of one model",
            value=width(text.model),
            limit=images.shape[1],
        )
    rows = text.reader().rows(samples(), truncate=True)
    save(text.model, place / "text-features.onnx")
    session = Session(place / "text-features.onnx", threads=available_cores(), takes=TOKENS)
    features = np.concatenate([session.run(rows[i : i + FEW]) for i in range(0, len(rows), FEW)])
    few = rows[:FEW]
    alone = np.concatenate([session.run(row[None]) for row in few])
    shift = unit(images).mean(axis=0) - unit(features).mean(axis=0)
    model = canonical(
        with_root_head(text.model, read_head(place / HEAD), takes="directions", shift=shift.astype(np.float32))
    )
    refer_to_head(model, place)
    save(model, place / TEXT)
    shutil.copyfile(text.tokenizer, place / TOKENIZER)
    checks = [verify.texts_ignore_each_other(alone, features[: len(few)])]
    if text.reference is not None:
        checks.insert(0, verify.features_agree(text.reference(few), alone, f"{len(few)} texts"))
    return described(place, text.reader(), tuple(checks))


def described(place: Path, reader: Tokenizer, checks: tuple[Check, ...]) -> TextRecord:
    """What a manifest says of the text tower whose files lie in `place`."""
    z = Session(place / TEXT, takes=TOKENS).run(reader.rows([GOLDEN], truncate=True))[0]
    active = np.flatnonzero(z > 0)
    return TextRecord(
        file=TEXT,
        tokenizer=TOKENIZER,
        length=reader.length,
        pad=reader.pad,
        golden=Golden(indices=tuple(active.tolist()), values=rounded(z[active])),
        checks=checks,
    )


def samples() -> list[str]:
    """Texts as people write them, of many things."""
    names = read_names(SHIPPED / "photo" / NAMES, 2048).names
    chosen = [names[i * len(names) // SAMPLES].name for i in range(SAMPLES)]
    return [f"a photo of a {name}" for name in chosen]
